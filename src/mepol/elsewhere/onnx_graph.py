"""A policy as an ONNX graph, put together by hand: a few operators of opset 17, which every runtime knows.

Input `obs` (M, S) float32, M free; outputs `mean` (M, A) and, where it does not depend on the state, `std` (A,).
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from mepol.elsewhere.network import Network
from mepol.elsewhere.optional import optional

OPSET, IR = 17, 8  # as old as the operators allow, so that old runtimes read it


def onnx_bytes(net: Network, facts: dict[str, Any]) -> bytes:
    """The graph as a file, checked; `facts` are its metadata `mepol`, as JSON."""
    onnx = optional("onnx", "export")
    arrays: dict[str, Any] = {"shift": net.shift, "scale": net.scale}
    helper, nodes = onnx.helper, []

    def node(operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    x = node("Div", [node("Sub", ["obs", "shift"], "centred"), "scale"], "scaled")
    last = len(net.layers) - 1
    for i, (weight, bias) in enumerate(net.layers):
        arrays |= {f"weight.{i}": weight, f"bias.{i}": bias}
        direct = i == last and net.squash is None
        x = node("Gemm", [x, f"weight.{i}", f"bias.{i}"], "mean" if direct else f"layer.{i}", transB=1)
        x = x if i == last else node("Relu", [x], f"relu.{i}")
    if net.squash is not None:
        low, high = net.squash
        arrays |= {"half": (high - low) / 2, "middle": (high + low) / 2}
        node("Add", [node("Mul", [node("Tanh", [x], "tanh"), "half"], "stretched"), "middle"], "mean")
    outputs: list[tuple[str, list[Any]]] = [("mean", ["M", net.action_dim])]
    if net.log_std is not None:
        arrays["spread"] = np.exp(net.log_std)
        outputs.append((node("Identity", ["spread"], "std"), [net.action_dim]))
    real = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "mepol",
        [helper.make_tensor_value_info("obs", real, ["M", net.state_dim])],
        [helper.make_tensor_value_info(name, real, shape) for name, shape in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(
        graph, producer_name="mepol", ir_version=IR, opset_imports=[helper.make_opsetid("", OPSET)]
    )
    helper.set_model_props(model, {"mepol": json.dumps(facts)})
    onnx.checker.check_model(model, full_check=True)
    data: bytes = model.SerializeToString()
    return data

"""A policy as an ONNX graph, put together by hand: a few operators of opset 17, which every runtime knows.

Input `obs` (M, S) float32, M free; outputs `mean` (M, A) and, where it does not depend on the state, `std` (A,). Of a
policy of choices they are `logits` (M, sum of all n) side by side and `action` (M, A) int64, the likeliest of each.
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
        named = ("mean" if net.choices is None else "logits") if i == last and net.squash is None else f"layer.{i}"
        x = node("Gemm", [x, f"weight.{i}", f"bias.{i}"], named, transB=1)
        x = x if i == last else node("Relu", [x], f"relu.{i}")
    if net.squash is not None:
        low, high = net.squash
        arrays |= {"half": (high - low) / 2, "middle": (high + low) / 2}
        node("Add", [node("Mul", [node("Tanh", [x], "tanh"), "half"], "stretched"), "middle"], "mean")
    real, whole = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    outputs: list[tuple[str, Any, list[Any]]] = [(x if net.choices else "mean", real, ["M", net.outputs])]
    if net.choices is not None:
        arrays["choices"] = np.array(net.choices, dtype=np.int64)
        parts = [f"choice.{i}" for i in range(net.action_dim)]
        nodes.append(helper.make_node("Split", [x, "choices"], parts, axis=1))
        taken = [node("ArgMax", [part], f"{part}.best", axis=1, keepdims=1) for part in parts]
        outputs.append((node("Concat", taken, "action", axis=1), whole, ["M", net.action_dim]))
    if net.log_std is not None:
        arrays["spread"] = np.exp(net.log_std)
        outputs.append((node("Identity", ["spread"], "std"), real, [net.action_dim]))
    graph = helper.make_graph(
        nodes,
        "mepol",
        [helper.make_tensor_value_info("obs", real, ["M", net.state_dim])],
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(
        graph, producer_name="mepol", ir_version=IR, opset_imports=[helper.make_opsetid("", OPSET)]
    )
    helper.set_model_props(model, {"mepol": json.dumps(facts)})
    onnx.checker.check_model(model, full_check=True)
    data: bytes = model.SerializeToString()
    return data

"""All that a learner has learnt, as safetensors: networks, optimiser moments, loose tensors. No pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from mepol.errors import CheckpointError, CollapseError
from mepol.files import Layout, TensorFormat, tensor_bytes

FORMAT = "mepol-finetune-1"
FILE = TensorFormat(
    FORMAT,
    CheckpointError,
    source="the checkpoint",
    foreign=f"is not a checkpoint of format {FORMAT!r}",
    not_finite="holds NaN or infinite values",
)
MOMENTS = ("exp_avg", "exp_avg_sq", "step")  # Adam's, the only optimiser in use
DTYPES = {torch.float32: "F32", torch.int64: "I64"}


@dataclass(frozen=True)
class State:
    """The parts of a learner that change as it learns; the tensors are the learner's own."""

    modules: Mapping[str, nn.Module]
    optimisers: Mapping[str, torch.optim.Optimizer]
    loose: Mapping[str, Tensor] = field(default_factory=dict)


def state_bytes(state: State, iteration: int, samples: int) -> bytes:
    """The whole state as one file. Raises CollapseError when it is no longer finite."""
    tensors = {**_fixed(state), **_moments(state)}
    if bad := [name for name, t in tensors.items() if not bool(torch.isfinite(t).all())]:
        raise CollapseError(f"{bad[0]} is NaN or infinite before iteration {iteration}; lower the rate or the KL")
    header = {"format": FORMAT, "iteration": str(iteration), "samples": str(samples)}
    return tensor_bytes({name: t.detach() for name, t in tensors.items()}, header)


@torch.no_grad()
def load_state(path: Path, state: State) -> tuple[int, int]:
    """Put the file's content into `state`; returns iteration and samples. Raises CheckpointError.

    Everything is read and checked before anything is changed; nothing in the file is executed.
    """

    def check(header: dict[str, str], layout: Layout) -> tuple[int, int]:
        numbers = [header.get("iteration", ""), header.get("samples", "")]
        if not all(n.isdecimal() and len(n) < 19 for n in numbers):
            raise CheckpointError(f"{path} {FILE.foreign}")
        _check(layout, state, path)
        return int(numbers[0]), int(numbers[1])

    position, tensors = FILE.read(path, check)
    for name, target in _fixed(state).items():
        target.copy_(tensors[name])
    for prefix, optimiser, parameter in _parameters(state):
        own = {moment: tensors[prefix + moment] for moment in MOMENTS if prefix + moment in tensors}
        optimiser.state[parameter] = own
        if not own:
            del optimiser.state[parameter]
    return position


def _fixed(state: State) -> dict[str, Tensor]:
    """Tensors that are always there."""
    networks = {f"{m}.{name}": t for m, module in state.modules.items() for name, t in module.state_dict().items()}
    return {**networks, **state.loose}


def _moments(state: State) -> dict[str, Tensor]:
    """Tensors of the parameters that have been stepped."""
    return {
        prefix + name: value
        for prefix, optimiser, parameter in _parameters(state)
        for name, value in optimiser.state.get(parameter, {}).items()
    }


def _parameters(state: State) -> list[tuple[str, torch.optim.Optimizer, Tensor]]:
    """(prefix of its moments, optimiser, parameter) of every optimised parameter."""
    return [
        (f"optimiser.{name}.{i}.", optimiser, parameter)
        for name, optimiser in state.optimisers.items()
        for i, parameter in enumerate(p for group in optimiser.param_groups for p in group["params"])
    ]


def _check(layout: Layout, state: State, path: Path) -> None:
    """Names, shapes and types must be the learner's own, with all or none of each parameter's moments."""
    allowed = {name: (list(t.shape), DTYPES[t.dtype]) for name, t in _fixed(state).items()}
    required = set(allowed)
    for prefix, _, parameter in _parameters(state):
        shapes = {"exp_avg": list(parameter.shape), "exp_avg_sq": list(parameter.shape), "step": []}
        own = {prefix + moment: (shape, "F32") for moment, shape in shapes.items()}
        allowed |= own
        if not own.keys().isdisjoint(layout):
            required |= set(own)
    for name, entry in layout.items():
        if name not in allowed or entry != allowed[name]:
            raise CheckpointError(f"{path} does not fit this run: unexpected tensor {name!r}")
    if missing := required - set(layout):
        raise CheckpointError(f"{path} lacks {sorted(missing)[0]!r}")

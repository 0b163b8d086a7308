"""A run's state between two epochs, as safetensors: policy, critic, optimiser, epoch, samples, versions. No pickle.

Random streams need no state of their own: each draw depends on (seed, stream, epoch) alone.
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mepol.critic import Critic
from mepol.errors import CheckpointError, CollapseError
from mepol.files import Layout, TensorFormat, tensor_bytes
from mepol.policy import GaussianPolicy

FORMAT = "mepol-checkpoint-2"  # 2: with a digest
FILE = TensorFormat(
    FORMAT,
    CheckpointError,
    source="the checkpoint",
    foreign=f"is not a mepol checkpoint of format {FORMAT!r}",
    not_finite="holds NaN or infinite values",
)


@dataclass(frozen=True)
class Position:
    """Where a run stands: the policy it is about to use, and what it cost to reach it."""

    epoch: int
    samples: int


@cache
def versions() -> dict[str, str]:
    """What a bit-for-bit continuation depends on."""
    return {
        "mepol": version("mepol"),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "scipy": version("scipy"),
        "gymnasium": version("gymnasium"),
        "machine": platform.machine(),
    }


@dataclass(frozen=True)
class Learner:
    """All that an epoch changes."""

    policy: GaussianPolicy
    optimiser: torch.optim.Optimizer
    critic: Critic | None = None

    def tensors(self) -> dict[str, Tensor]:
        """Weights and buffers by name."""
        modules = {"policy": self.policy, "critic": self.critic}
        return {f"{m}.{name}": t for m, module in modules.items() if module for name, t in module.state_dict().items()}

    def parameters(self) -> list[torch.nn.Parameter]:
        """What the optimiser moves, in its order."""
        return [*self.policy.parameters(), *(self.critic.parameters() if self.critic else ())]


def checkpoint_bytes(learner: Learner, position: Position) -> bytes:
    """The whole state as one safetensors file.

    Raises CollapseError when the state is no longer finite: what is written can always be read.
    """
    tensors = learner.tensors() | _moments(learner)
    if bad := [name for name, t in tensors.items() if not bool(torch.isfinite(t).all())]:
        raise CollapseError(f"{bad[0]} is NaN or infinite before epoch {position.epoch}; lower learning_rate")
    header = {
        "format": FORMAT,
        "epoch": str(position.epoch),
        "samples": str(position.samples),
        "versions": json.dumps(versions()),
    }
    return tensor_bytes(tensors, header)


def load_checkpoint(path: Path, learner: Learner) -> tuple[Position, dict[str, str]]:
    """Put the state of `path` into `learner`; returns the position and the versions that wrote it.

    Everything is read and checked before anything is changed. Raises CheckpointError.
    """

    def check(header: dict[str, str], layout: Layout) -> tuple[Position, dict[str, str]]:
        position = _position(header, path)
        _check(layout, learner, path)
        return position, _versions(header)

    (position, wrote), tensors = FILE.read(path, check)
    with torch.no_grad():
        for name, tensor in learner.tensors().items():
            tensor.copy_(tensors[name])
    learner.optimiser.state.clear()
    for i, parameter in enumerate(learner.parameters()):
        prefix = f"optimiser.{i}."
        state = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
        if state:
            learner.optimiser.state[parameter] = state
    return position, wrote


def _moments(learner: Learner) -> dict[str, Tensor]:
    """The optimiser's tensors, named by the position of their parameter."""
    return {
        f"optimiser.{i}.{name}": value
        for i, parameter in enumerate(learner.parameters())
        for name, value in learner.optimiser.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def _position(header: dict[str, str], path: Path) -> Position:
    epoch, samples = header.get("epoch", ""), header.get("samples", "")
    if not all(text.isdecimal() and text.isascii() and len(text) < 19 for text in (epoch, samples)):
        raise CheckpointError(f"{path} has an unreadable position")
    return Position(int(epoch), int(samples))


def _versions(header: dict[str, str]) -> dict[str, str]:
    try:
        wrote = json.loads(header.get("versions", "{}"))
    except (ValueError, RecursionError):
        return {}
    return {str(k): str(v) for k, v in wrote.items()} if isinstance(wrote, dict) else {}


def _check(layout: Layout, learner: Learner, path: Path) -> None:
    """Names, shapes and types must be those of this learner and, for each parameter, all or none of Adam's moments."""
    allowed = {name: list(t.shape) for name, t in learner.tensors().items()}
    required = set(allowed)
    adam = isinstance(learner.optimiser, torch.optim.Adam)
    for i, parameter in enumerate(learner.parameters() if adam else ()):
        shape, prefix = list(parameter.shape), f"optimiser.{i}."
        moments = {f"{prefix}exp_avg": shape, f"{prefix}exp_avg_sq": shape, f"{prefix}step": []}
        allowed |= moments
        if not moments.keys().isdisjoint(layout):
            required |= set(moments)
    for name, entry in layout.items():
        if name not in allowed or entry != (allowed[name], "F32"):
            raise CheckpointError(f"{path} does not fit this run's policy: unexpected tensor {name!r}")
    if missing := required - set(layout):
        raise CheckpointError(f"{path} lacks {sorted(missing)[0]!r}")

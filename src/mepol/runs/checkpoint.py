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

from mepol.algorithm import Ascent, GaussianPolicy
from mepol.errors import CheckpointError
from mepol.runs.files import Layout, TensorFormat, tensor_bytes
from mepol.runs.state import State

FORMAT = "mepol-checkpoint-3"  # 2: with a digest; 3: moments named by their optimiser
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
    ascent: Ascent

    def state(self) -> State:
        """What a checkpoint keeps of it."""
        return State(self.ascent.modules, self.ascent.optimisers)


def checkpoint_bytes(learner: Learner, position: Position) -> bytes:
    """The whole state as one safetensors file.

    Raises CollapseError when the state is no longer finite: what is written can always be read.
    """
    header = {
        "format": FORMAT,
        "epoch": str(position.epoch),
        "samples": str(position.samples),
        "versions": json.dumps(versions()),
    }
    return tensor_bytes(learner.state().tensors(f"epoch {position.epoch}"), header)


def load_checkpoint(path: Path, learner: Learner) -> tuple[Position, dict[str, str]]:
    """Put the state of `path` into `learner`; returns the position and the versions that wrote it.

    Everything is read and checked before anything is changed. Raises CheckpointError.
    """
    state = learner.state()

    def check(header: dict[str, str], layout: Layout) -> tuple[Position, dict[str, str]]:
        position = _position(header, path)
        state.check(layout, path)
        return position, _versions(header)

    found, tensors = FILE.read(path, check)
    state.restore(tensors)
    return found


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

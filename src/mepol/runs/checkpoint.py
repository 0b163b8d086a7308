"""A run's state between two turns, as safetensors: networks, moments, position, versions, and which run it is of.

Random streams need no state of their own: each draw depends on (seed, stream, turn) alone. A replay memory is too large
to be written every time: it lies in parts (`Part`), one a turn, and the checkpoint names those it rests on.
"""

from __future__ import annotations

import json
import platform
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from mepol.errors import CheckpointError, MepolWarning, RunError
from mepol.runs.directory import RunDirectory
from mepol.runs.state import State
from mepol.runs.tensors import Layout, TensorFormat, read_header, tensor_bytes

FORMAT = "mepol-checkpoint-4"
OLDER = ("mepol-checkpoint-3", "mepol-finetune-1")
"""Of the versions that had one for each phase: without the run's identity, and without the parts it rests on."""
FILE = TensorFormat(
    FORMAT,
    CheckpointError,
    source="the checkpoint",
    foreign=f"is not a mepol checkpoint of format {FORMAT!r}",
    not_finite="holds NaN or infinite values",
    older=OLDER,
)


@dataclass(frozen=True)
class Part:
    """A part of a replay memory: what was stored just before turn `number`."""

    number: int
    rows: int
    """Steps of all sub-environments."""
    digest: str
    """Of its file."""


@dataclass(frozen=True)
class Position:
    """Where a run stands: the turn that is about to begin, what it cost to reach it, and what its memory holds."""

    turn: int
    samples: int
    parts: tuple[Part, ...] = ()


class Resumable(Protocol):
    """What a checkpoint is made of, and put back into."""

    def state(self, turn: int) -> State:
        """All that it has learnt before `turn`, its own tensors; one that grows makes room for them first."""
        ...

    def recall(self, position: Position, part: Callable[[int], Path]) -> None:
        """Put back what is not in the state: a memory, from the files of its parts. Raises CheckpointError."""
        ...


@cache
def versions() -> dict[str, str]:
    """What a bit-for-bit continuation depends on."""
    packages = ("mepol", "scipy", "gymnasium", "stable-baselines3", "sb3-contrib", "mujoco")
    found = {"torch": str(torch.__version__), "numpy": np.__version__, "machine": platform.machine()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def written_with(run: RunDirectory[Any, Any]) -> dict[str, str]:
    """The `versions` that the run's newest checkpoint was written with; none where there is no such file to read."""
    try:
        return _versions(read_header(run.checkpoints()[0], CheckpointError, "a checkpoint from"))
    except (CheckpointError, IndexError):
        return {}


def checkpoint_bytes(run: RunDirectory[Any, Any], learner: Resumable, position: Position) -> bytes:
    """The whole state as one safetensors file.

    Raises CollapseError when the state is no longer finite: what is written can always be read.
    """
    header = {
        "format": FORMAT,
        "kind": run.phase.name,
        "run": run.identity,
        "turn": str(position.turn),
        "samples": str(position.samples),
        "parts": json.dumps([[p.number, p.rows, p.digest] for p in position.parts]),
        "versions": json.dumps(versions()),
    }
    return tensor_bytes(learner.state(position.turn).tensors(f"{run.phase.turn} {position.turn}"), header)


def restore(run: RunDirectory[Any, Any], learner: Resumable) -> Position | None:
    """Put the newest checkpoint that can be read into `learner`; None where the run has not written any.

    One that cannot is passed over for the one before, with a MepolWarning. Nothing on disk is changed.
    """
    paths = run.checkpoints()
    for path in paths:
        try:
            return load_checkpoint(run, path, learner)
        except CheckpointError as fault:
            warnings.warn(f"{fault}; falling back to the checkpoint before", MepolWarning, stacklevel=3)
    if paths or run.rows():
        raise RunError(f"{run.path} has no checkpoint that can be read; start again with mepol {run.phase.name}")
    return None


def load_checkpoint(run: RunDirectory[Any, Any], path: Path, learner: Resumable) -> Position:
    """Put the state of `path` into `learner`; everything is read and checked before anything is changed."""

    def check(header: dict[str, str], layout: Layout) -> tuple[Position, State, dict[str, str]]:
        position = _position(header, run, path)
        state = learner.state(position.turn)
        state.check(layout, path)
        return position, state, _versions(header)

    (position, state, wrote), tensors = FILE.read(path, check)
    learner.recall(position, run.part_path)
    state.restore(tensors)
    if changed := sorted(k for k in wrote if k in versions() and wrote[k] != versions()[k]):
        text = f"{path} was written with another version of {', '.join(changed)}: digits may differ from here on"
        warnings.warn(text, MepolWarning, stacklevel=4)
    return position


def _position(header: dict[str, str], run: RunDirectory[Any, Any], path: Path) -> Position:
    older = header.get("format") in OLDER
    if not older and (header.get("run"), header.get("kind")) != (run.identity, run.phase.name):
        raise CheckpointError(f"{path} is of another run")
    turn, samples = header.get(run.phase.turn if older else "turn", ""), header.get("samples", "")
    if not all(text.isdecimal() and text.isascii() and len(text) < 19 for text in (turn, samples)):
        raise CheckpointError(f"{path} has an unreadable position")
    return Position(int(turn), int(samples), _parts(header.get("parts", "[]"), path))


def _parts(text: str, path: Path) -> tuple[Part, ...]:
    try:
        found = [Part(number, rows, digest) for number, rows, digest in json.loads(text)]
    except (ValueError, TypeError, RecursionError) as fault:
        raise CheckpointError(f"{path} does not say what memory it rests on") from fault
    sound = all(
        type(p.number) is type(p.rows) is int and p.number >= 0 < p.rows and type(p.digest) is str for p in found
    )
    if not sound or [p.number for p in found] != sorted({p.number for p in found}):
        raise CheckpointError(f"{path} does not say what memory it rests on")
    return tuple(found)


def _versions(header: Mapping[str, str]) -> dict[str, str]:
    try:
        wrote = json.loads(header.get("versions", "{}"))
    except (ValueError, RecursionError):
        return {}
    return {str(k): str(v) for k, v in wrote.items()} if isinstance(wrote, dict) else {}

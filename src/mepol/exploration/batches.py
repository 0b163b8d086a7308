"""The last batches of a run and the policies that drew them, for Eq. 2 over their union; kept on disk in parts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mepol.algorithm.batch import Batch
from mepol.algorithm.policy import Policy
from mepol.algorithm.reuse import Drawn, Union, gather
from mepol.errors import CheckpointError, EnvironmentFault
from mepol.runs.checkpoint import Part, Position
from mepol.runs.directory import RunDirectory
from mepol.runs.parts import read_part, write_part
from mepol.runs.state import DTYPES
from mepol.runs.tensors import Layout

ARRAYS = {"states": (3, "F64"), "actions": (3, "F32"), "lengths": (1, "I64")}
"""Dimensions and type of what is kept of a batch; `policy.NAME` are the tensors of what drew it."""


class Batches:
    """At most `most` batches, the newest included; gamma: discount of the states."""

    def __init__(self, most: int, gamma: float) -> None:
        self._most, self._gamma = most, gamma
        self._drawn: tuple[Drawn, ...] = ()
        self._parts: tuple[Part, ...] = ()

    def union(self, batch: Batch, policy: Policy) -> Union:
        """Those that are still of use, together with a new `batch` that `policy` drew just now."""
        drawn = (*self._drawn, Drawn(batch, copy.deepcopy(policy)))[-self._most :]
        found = gather(drawn, self._gamma)
        self._drawn = found.drawn
        return found

    def store(self, run: RunDirectory[Any, Any], turn: int) -> tuple[Part, ...]:
        """Write the newest batch as the part of `turn`; returns those that the next epoch may look back on."""
        own = self._drawn[-1]
        part = write_part(run, turn, own.batch.size, {**_arrays(own.batch), **_weights(own.policy)})
        self._drawn = self._drawn[1 - self._most :]
        self._parts = (*self._parts, part)[-len(self._drawn) :]
        return self._parts

    def recall(self, position: Position, path_of: Callable[[int], Path], policy: Policy) -> None:
        """Put back what `store` wrote of the parts that a checkpoint names; anything else is a CheckpointError.

        policy: one of the run's kind.
        """
        turn, numbers = position.turn, [part.number for part in position.parts]
        newest = list(range(turn + 1 - len(numbers), turn + 1))
        if numbers != newest or len(numbers) >= self._most or bool(numbers) != bool(turn):
            raise CheckpointError(
                f"the checkpoint of epoch {turn} does not name the last batches, which reuse = {self._most} looks "
                "back on: it cannot be gone on from"
            )
        self._drawn = tuple(_read(part, path_of(part.number), policy) for part in position.parts)
        self._parts = position.parts


def _arrays(batch: Batch) -> dict[str, Tensor]:
    return {name: torch.from_numpy(getattr(batch, name)) for name in ARRAYS}


def _weights(policy: Policy) -> dict[str, Tensor]:
    return {f"policy.{name}": tensor.detach() for name, tensor in policy.state_dict().items()}


def _read(part: Part, path: Path, policy: Policy) -> Drawn:
    own = copy.deepcopy(policy)
    weights = {name: (list(t.shape), DTYPES[t.dtype]) for name, t in _weights(own).items()}

    def fits(layout: Layout) -> bool:
        rest = {name: entry for name, entry in layout.items() if name not in ARRAYS}
        batch = {name: (len(shape), kind) for name, (shape, kind) in layout.items() if name in ARRAYS}
        return rest == weights and batch == ARRAYS

    found = read_part(part, path, fits)
    own.load_state_dict({name.removeprefix("policy."): found[name] for name in weights})
    try:
        batch = Batch(*(found[name].numpy() for name in ARRAYS))
    except EnvironmentFault as fault:
        raise CheckpointError(f"{path} holds no batch: {fault}") from fault
    return Drawn(batch, own)

"""A replay memory between two processes: written in parts, one an iteration, put back from those a checkpoint names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mepol.errors import CheckpointError
from mepol.runs.checkpoint import Part, Position
from mepol.runs.directory import RunDirectory
from mepol.runs.parts import read_part, write_part

TYPES = {np.dtype(np.float32): "F32", np.dtype(np.float64): "F64", np.dtype(np.uint8): "U8"}


class Memory:
    """Stable-Baselines3's replay buffer `replay`, whose rows are M transitions each."""

    def __init__(self, replay: Any) -> None:
        self._replay = replay
        self.parts: tuple[Part, ...] = ()
        """What the memory rests on now, oldest first."""

    def store(self, run: RunDirectory[Any, Any], number: int, rows: int) -> None:
        """Write the newest `rows` rows as the part of iteration `number`."""
        size = self._replay.buffer_size
        rows = min(rows, size)
        which = (self._replay.pos - rows + np.arange(rows)) % size
        tensors = {name: torch.from_numpy(array[which]) for name, array in self._columns().items()}
        self.parts = (*self.parts, write_part(run, number, rows, tensors))
        while sum(part.rows for part in self.parts[1:]) >= size:  # the oldest is overwritten wholly
            self.parts = self.parts[1:]

    def recall(self, position: Position, rows_so_far: int, path_of: Callable[[int], Path]) -> None:
        """Put back what `store` wrote of the parts that a checkpoint names; anything else is a CheckpointError.

        rows_so_far: rows that the run has ever stored. It fixes where in the memory they lie, and so which ones
        a batch draws.
        """
        replay, columns = self._replay, self._columns()
        held = sum(part.rows for part in position.parts)
        if held < min(rows_so_far, replay.buffer_size):
            raise CheckpointError(
                f"the checkpoint of iteration {position.turn} names {held} rows of replay memory, and "
                f"{min(rows_so_far, replay.buffer_size)} were stored: it cannot be gone on from"
            )
        read = [(part, self._read(part, path_of(part.number), columns)) for part in position.parts]
        replay.pos = (rows_so_far - held) % replay.buffer_size
        for part, tensors in read:
            which = (replay.pos + np.arange(part.rows)) % replay.buffer_size
            for name, array in columns.items():
                array[which] = tensors[name]
            replay.pos = (replay.pos + part.rows) % replay.buffer_size
        replay.full = rows_so_far >= replay.buffer_size
        self.parts = position.parts

    @staticmethod
    def _read(part: Part, path: Path, columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        wanted = {n: ([part.rows, *a.shape[1:]], TYPES[a.dtype]) for n, a in columns.items()}
        return {name: tensor.numpy() for name, tensor in read_part(part, path, lambda found: found == wanted).items()}

    def _columns(self) -> dict[str, NDArray[Any]]:
        names = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
        return {name: getattr(self._replay, name) for name in names}

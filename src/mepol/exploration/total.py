"""Total coverage: how many cells of the heatmaps' grid the training batches of a run have visited, all together."""

from __future__ import annotations

import hashlib

import numpy as np
import torch

from mepol.algorithm.batch import Batch
from mepol.envs.coordinates import Grid
from mepol.evaluation.visits import visited_cells
from mepol.runs.state import State


class TotalCells:
    """The cells of `grid` that any batch so far has visited. They are a part of every checkpoint.

    A batch that was not counted may have been anywhere, so after one there is no number: that is so where a checkpoint
    of an earlier version is gone on from, and where the run has been given another grid (`mepol heatmaps --replace`).
    """

    def __init__(self, grid: Grid | None) -> None:
        self._grid = grid
        self._seen = torch.zeros(grid.bins if grid else (0, 0), dtype=torch.bool)  # (bins_0, bins_1)
        self._epochs = torch.zeros((), dtype=torch.int64)  # whose batches are counted: 0 .. epochs-1

    def after(self, epoch: int, batch: Batch | None) -> int | None:
        """Cells that the batches up to and including this `epoch`'s have visited, by s_1 .. s_T of each trajectory.

        None where there is no grid, where the epoch drew no batch, and where one before was not counted.
        """
        if self._grid is None or batch is None or int(self._epochs) != epoch:
            return None
        self._seen |= torch.from_numpy(visited_cells(batch, self._grid))
        self._epochs += 1
        return int(self._seen.sum())

    def state(self) -> State:
        """What a checkpoint keeps of it, under a name that says which grid it is of."""
        if self._grid is None:
            return State({}, {})
        grid = np.array([self._grid.axes, self._grid.low, self._grid.high], dtype=np.float64)
        name = f"total_cells.{hashlib.sha256(grid.tobytes()).hexdigest()[:16]}"
        return State({}, {}, extra={f"{name}.seen": self._seen, f"{name}.epochs": self._epochs})

"""Visits to the cells of a two-dimensional grid, and the discrete entropies of the paper's tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mepol.algorithm.batch import Batch
from mepol.envs.coordinates import Grid, cells_of


def visit_counts(batch: Batch, grid: Grid) -> NDArray[np.int64]:
    """(M, bins_0, bins_1) how often each trajectory's s_1 .. s_T fell in each cell."""
    cell = cells_of(batch.placed[:, 1:, list(grid.axes)], grid)  # (M, T, 2)
    trajectory = np.broadcast_to(np.arange(len(cell))[:, None], cell.shape[:2])
    seen = batch.visited()
    counts = np.zeros((len(cell), *grid.bins), dtype=np.int64)
    np.add.at(counts, (trajectory[seen], cell[..., 0][seen], cell[..., 1][seen]), 1)
    return counts


def visited_cells(batch: Batch, grid: Grid) -> NDArray[np.bool_]:
    """(bins_0, bins_1) which cells any trajectory's s_1 .. s_T fell in: where `visit_counts` of all is above 0."""
    cell = cells_of(batch.placed[:, 1:, list(grid.axes)][batch.visited()], grid)  # (N, 2)
    seen = np.zeros(grid.bins, dtype=np.bool_)
    seen[cell[:, 0], cell[:, 1]] = True
    return seen


def discrete_entropy(counts: NDArray[np.int64]) -> float:
    """Entropy, in nats, of the histogram with these counts (any shape)."""
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log(p)).sum())

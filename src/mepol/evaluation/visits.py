"""Visits to the cells of a two-dimensional grid, and the discrete entropies of the paper's tables."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mepol.algorithm.batch import Batch
from mepol.errors import ConfigError


@dataclass(frozen=True)
class Grid:
    """Cells over two state coordinates; the outer cells absorb what lies outside the range."""

    axes: tuple[int, int]
    names: tuple[str, str]
    low: tuple[float, float]
    high: tuple[float, float]
    bins: tuple[int, int]

    def __post_init__(self) -> None:
        for name, low, high in zip(self.names, self.low, self.high, strict=True):
            if not (math.isfinite(low) and math.isfinite(high)):
                raise ConfigError(f"feature {name!r} is unbounded: give its range with heatmap_low and heatmap_high")
            if not low < high:
                raise ConfigError(f"feature {name!r} has the zero-width range [{low:g}, {high:g}]; widen it")


def cells_of(points: NDArray[np.float64], grid: Grid) -> NDArray[np.int64]:
    """(..., 2) values of the grid's coordinates -> (..., 2) the cell that each falls in."""
    bins, low, high = np.array(grid.bins), np.array(grid.low), np.array(grid.high)
    cell: NDArray[np.int64] = np.clip(np.floor((points - low) / (high - low) * bins), 0, bins - 1).astype(np.int64)
    return cell


def visit_counts(batch: Batch, grid: Grid) -> NDArray[np.int64]:
    """(M, bins_0, bins_1) how often each trajectory's s_1 .. s_T fell in each cell."""
    cell = cells_of(batch.states[:, 1:, list(grid.axes)], grid)  # (M, T, 2)
    trajectory = np.broadcast_to(np.arange(len(cell))[:, None], cell.shape[:2])
    seen = batch.visited()
    counts = np.zeros((len(cell), *grid.bins), dtype=np.int64)
    np.add.at(counts, (trajectory[seen], cell[..., 0][seen], cell[..., 1][seen]), 1)
    return counts


def discrete_entropy(counts: NDArray[np.int64]) -> float:
    """Entropy, in nats, of the histogram with these counts (any shape)."""
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log(p)).sum())

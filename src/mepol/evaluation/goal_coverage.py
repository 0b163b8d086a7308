"""What an explorer is worth before any training: how often, and how soon, it comes by each goal by chance.

A goal is "enter this cell" of a two-dimensional grid; every trajectory of a fresh batch tries all goals at once.

    hit_rate[c]      = trajectories that enter cell c within T steps / M
    steps_to_hit[c]  = mean, over those, of the step at which they first do; NaN where none does
    hit rate         = mean of hit_rate over the goals
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mepol.algorithm.batch import Batch
from mepol.envs.coordinates import Grid, cells_of, is_inside


@dataclass(frozen=True)
class GoalCoverage:
    """Maps (bins_0, bins_1); cells that are no goal are NaN in both."""

    goals: NDArray[np.bool_]
    """Which cells are goals."""
    hit_rate: NDArray[np.float64]
    steps_to_hit: NDArray[np.float64]
    trajectories: int

    @property
    def mean_hit_rate(self) -> float:
        """Share of (trajectory, goal) pairs that meet: 1 if every trajectory comes by everywhere."""
        return float(self.hit_rate[self.goals].mean())

    @property
    def mean_steps_to_hit(self) -> float:
        """Mean first step over all pairs that meet; NaN if none does."""
        weights = self.hit_rate[self.goals]
        steps = np.nan_to_num(self.steps_to_hit[self.goals])
        return float((weights * steps).sum() / weights.sum()) if weights.sum() > 0 else float("nan")

    @property
    def goals_hit(self) -> int:
        """Goals that any trajectory came by."""
        return int(np.count_nonzero(self.hit_rate[self.goals] > 0))


def goal_coverage(batch: Batch, grid: Grid, goals: NDArray[np.bool_]) -> GoalCoverage:
    """How the trajectories of `batch` come by the cells of `grid` that `goals` (bins_0, bins_1) marks.

    What lies outside the grid is in no cell: unlike in a heatmap, the outer cells do not absorb it.
    """
    where = batch.placed[:, 1:, list(grid.axes)]  # (M, T, 2)
    m, horizon = where.shape[:2]
    cell = cells_of(where, grid)
    inside = is_inside(where, grid) & batch.visited()
    trajectory, step = np.nonzero(inside)
    first = np.full((m, *grid.bins), horizon + 1, dtype=np.int64)
    np.minimum.at(first, (trajectory, cell[inside][:, 0], cell[inside][:, 1]), step + 1)
    hit = first <= horizon  # (M, bins_0, bins_1)
    count = hit.sum(axis=0)
    steps = np.where(hit, first, 0).sum(axis=0) / np.where(count > 0, count, 1)
    return GoalCoverage(
        goals,
        hit_rate=np.where(goals, count / m, np.nan),
        steps_to_hit=np.where(goals & (count > 0), steps, np.nan),
        trajectories=m,
    )

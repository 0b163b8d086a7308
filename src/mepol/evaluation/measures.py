"""The evaluation protocol: fresh trajectories, and every number with the particles it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mepol.algorithm.batch import Batch
from mepol.envs.reachable import coverage, reachable_cells
from mepol.estimators import knn_entropy
from mepol.evaluation.visits import Grid, discrete_entropy, visit_counts
from mepol.sampling.collect import Actor, collect


@dataclass(frozen=True)
class Evaluation:
    """What one policy covered in one fresh batch."""

    particles: int
    """N, states that every number here rests on."""
    k: int
    """Neighbours of the index."""
    index: float
    """Entropy index, nats: Eq. 1 over the entropy features, Euclidean and raw."""
    discrete_entropy: float | None = None
    """Mean over trajectories of each one's histogram entropy, nats: the paper's discrete entropy."""
    pooled_entropy: float | None = None
    """Entropy of the histogram of all trajectories together, nats."""
    cells: int | None = None
    """Cells of the grid that any trajectory visited."""
    coverage: float | None = None
    """Share of the reachable cells that any trajectory visited, where the environment knows which they are."""
    visits: NDArray[np.int64] | None = None
    """(bins_0, bins_1) visits of all trajectories together."""


def evaluate(
    actor: Actor,
    env: VectorEnv[Any, Any, Any],
    *,
    horizon: int,
    features: tuple[int, ...],
    k: int,
    eps: float = 0.0,
    grid: Grid | None = None,
    seed: np.random.SeedSequence,
    time_limit: float = 0.0,
) -> Evaluation:
    """Roll `actor` for `horizon` steps in each of the environment's sub-environments and measure what it covered.

    time_limit: seconds that one call of the environment may take, 0 for no limit.
    """
    batch = collect(actor, env, horizon, seed=seed, time_limit=time_limit)
    reachable = None if grid is None else reachable_cells(env, grid)
    return measure(batch, features=features, k=k, eps=eps, grid=grid, reachable=reachable)


def measure(
    batch: Batch,
    *,
    features: tuple[int, ...],
    k: int,
    eps: float = 0.0,
    grid: Grid | None = None,
    reachable: NDArray[np.bool_] | None = None,
) -> Evaluation:
    """What the trajectories of `batch` cover; `reachable`: (bins_0, bins_1) of `grid`, where it is known."""
    index = knn_entropy(batch.particles(features), k, eps=eps)
    if grid is None:
        return Evaluation(batch.size, k, index)
    seen = measure_cells(batch, grid, reachable)
    return Evaluation(
        particles=batch.size,
        k=k,
        index=index,
        discrete_entropy=seen.discrete_entropy,
        pooled_entropy=seen.pooled_entropy,
        cells=seen.cells,
        coverage=seen.coverage,
        visits=seen.visits,
    )


@dataclass(frozen=True)
class CellMeasures:
    """What one batch covered of the cells over one pair of coordinates; the fields are those of `Evaluation`."""

    discrete_entropy: float
    pooled_entropy: float
    cells: int
    coverage: float | None
    visits: NDArray[np.int64]


def measure_cells(batch: Batch, grid: Grid, reachable: NDArray[np.bool_] | None = None) -> CellMeasures:
    """Visits of `batch` to the cells of `grid`, and their entropies in nats."""
    counts = visit_counts(batch, grid)
    pooled = counts.sum(axis=0)
    return CellMeasures(
        discrete_entropy=float(np.mean([discrete_entropy(c) for c in counts])),
        pooled_entropy=discrete_entropy(pooled),
        cells=int(np.count_nonzero(pooled)),
        coverage=None if reachable is None else coverage(pooled, reachable),
        visits=pooled,
    )

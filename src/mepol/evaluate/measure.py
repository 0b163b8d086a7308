"""The evaluation protocol: fresh trajectories, and every number with the particles it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mepol.batch import Batch
from mepol.estimators import knn_entropy
from mepol.evaluate.visits import Grid, discrete_entropy, visit_counts
from mepol.sampling import Actor, collect


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
    return measure(batch, features=features, k=k, eps=eps, grid=grid)


def measure(
    batch: Batch, *, features: tuple[int, ...], k: int, eps: float = 0.0, grid: Grid | None = None
) -> Evaluation:
    """What the trajectories of `batch` cover."""
    index = knn_entropy(batch.particles(features), k, eps=eps)
    if grid is None:
        return Evaluation(batch.size, k, index)
    counts = visit_counts(batch, grid)
    pooled = counts.sum(axis=0)
    return Evaluation(
        particles=batch.size,
        k=k,
        index=index,
        discrete_entropy=float(np.mean([discrete_entropy(c) for c in counts])),
        pooled_entropy=discrete_entropy(pooled),
        cells=int(np.count_nonzero(pooled)),
        visits=pooled,
    )

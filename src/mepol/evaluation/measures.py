"""What one batch covers: every number with the particles it rests on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mepol.algorithm.batch import Batch
from mepol.algorithm.landscape import KnnLandscape
from mepol.envs.coordinates import Grid
from mepol.envs.domain import Domain
from mepol.envs.reachable import coverage
from mepol.evaluation.visits import discrete_entropy, visit_counts
from mepol.neighbours import Workers, neighbours

TRUE_FLOOR = 1e-6  # distance below which true states are one place: they are measured, not climbed


@dataclass(frozen=True)
class Evaluation:
    """What one policy covered in one fresh batch."""

    particles: int
    """N, states that every number here rests on."""
    k: int
    """Neighbours of the index."""
    index: float
    """Entropy index, nats: Eq. 1 over the entropy features, with the domain's units of distance, volumes raw."""
    true_index: float | None = None
    """The same over all coordinates of the true state, raw, where pictures are observed and it is known."""
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


def measure_states(
    batch: Batch, domain: Domain, *, k: int, eps: float = 0.0, workers: Workers = -1, discount: float = 1.0
) -> Evaluation:
    """What the trajectories of `batch` cover of `domain`: its features' entropy, and the cells of its grid.

    discount: gamma of the states in the index; cells count every state alike.
    """
    near = domain.search(batch, k, eps=eps, workers=workers)
    index = KnnLandscape(near, batch.discounted(discount)).entropy()
    true_index = None
    if batch.truth is not None:
        behind = neighbours(batch.truth[:, 1:][batch.visited()], k, workers=workers, floor=TRUE_FLOOR)
        true_index = KnnLandscape(behind, batch.discounted(discount)).entropy()
    if domain.grid is None:
        return Evaluation(batch.size, k, index, true_index)
    seen = measure_cells(batch, domain.grid, domain.reachable)
    return Evaluation(batch.size, k, index, true_index, **vars(seen))


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

"""Exact k nearest neighbours of particles in a batch, and the log-volumes of their balls.

Letters: N particles, D entropy features, K neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from scipy.spatial import KDTree

from mepol.errors import CoincidentParticlesError, ParticleError

# Above this many features a k-d tree visits almost every leaf, and blocked matrix products win
# (docs/decisions.md, "Neighbour search").
TREE_MAX_DIM = 40
BLOCK_BYTES = 64 * 2**20  # one block of the brute-force distance matrix


@dataclass(frozen=True)
class Neighbours:
    """Who is near whom in one batch. Fixed while the weights move.

    index:      (N, K) int64, the k nearest particles of each particle, itself excluded, nearest first.
    log_volume: (N,) float64, ln of the volume of the D-ball that reaches the k-th neighbour.
    """

    index: NDArray[np.int64]
    log_volume: NDArray[np.float64]

    @property
    def n(self) -> int:
        """Number of particles N."""
        return int(self.index.shape[0])

    @property
    def k(self) -> int:
        """Number of neighbours K."""
        return int(self.index.shape[1])

    @cached_property
    def adjacency(self) -> csr_matrix[np.float64]:
        """(N, N) sparse matrix of ones: row i marks the neighbours of i, so that W = adjacency @ w."""
        starts = np.arange(0, self.n * self.k + 1, self.k)
        ones = np.ones(self.n * self.k)
        return csr_matrix((ones, self.index.ravel(), starts), shape=(self.n, self.n))


def neighbours(x: ArrayLike, k: int, *, eps: float = 0.0, workers: int = -1) -> Neighbours:
    """The k nearest neighbours of each row of `x` (N, D), exact, in memory linear in N·k.

    eps: a volume (in the units of x to the power D) added to each ball, as the authors do on MountainCar.
         With the default 0, particles that coincide with all of their k neighbours are an error.
    workers: threads of the search, -1 for all; the result does not depend on it.
    """
    points = _checked(x, k)
    n, dim = points.shape
    search = _search_tree if dim <= TREE_MAX_DIM else _search_blocks
    index, radius = search(points, k, workers)
    with np.errstate(divide="ignore"):
        log_volume = dim * np.log(radius) + log_unit_ball(dim)
    if eps > 0.0:
        log_volume = np.logaddexp(log_volume, math.log(eps))
    elif coincident := int(np.count_nonzero(radius == 0.0)):
        raise CoincidentParticlesError(
            f"{coincident} of {n} particles coincide with their k={k} nearest neighbours, "
            f"the first is particle {int(np.argmin(radius))}; "
            "raise k, or add a small volume with eps (the paper's MountainCar uses 1e-15)"
        )
    return Neighbours(index, log_volume)


def log_unit_ball(dim: int) -> float:
    """ln of the volume of the unit ball in R^dim: ln(pi^(dim/2) / Gamma(dim/2 + 1))."""
    return 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim + 1.0)


def _checked(x: ArrayLike, k: int) -> NDArray[np.float64]:
    points = np.ascontiguousarray(x, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] == 0:
        raise ParticleError(f"particles must have shape (N, D) with D >= 1, not {points.shape}")
    n = points.shape[0]
    if not 1 <= k < n:
        raise ParticleError(f"k = {k} is not in [1, N - 1] for N = {n} particles; lower k or sample more")
    finite = np.isfinite(points).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ParticleError(
            f"{n - int(finite.sum())} of {n} particles are NaN or infinite, the first is particle {row}"
        )
    flat = np.flatnonzero(points.max(axis=0) == points.min(axis=0))
    if flat.size and flat.size < points.shape[1]:
        column = int(flat[0])
        raise ParticleError(
            f"feature {column} is {points[0, column]:g} in all {n} particles: its entropy is minus infinity; "
            "leave it out of the entropy features"
        )
    return points


def _search_tree(points: NDArray[np.float64], k: int, workers: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    tree = KDTree(points, leafsize=16, balanced_tree=False, compact_nodes=False)
    distance, index = tree.query(points, k=k + 1, workers=workers)
    return _without_self(np.asarray(index, dtype=np.int64), np.asarray(distance))


def _search_blocks(points: NDArray[np.float64], k: int, workers: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Brute force by blocks of matrix products; the kept distances are recomputed without cancellation.

    A row whose candidates the rounding of the products may have got wrong is searched again in full.
    """
    del workers  # the matrix product already uses every core
    n, dim = points.shape
    centred = points - points.mean(axis=0)
    square = np.einsum("nd,nd->n", centred, centred)
    rounding = (dim + 4) * np.finfo(np.float64).eps * (square + square.max())  # (N,) of a row's product form
    spare = min(n, k + 1 + 8)  # candidates beyond k + 1 absorb most of it
    rows = max(1, BLOCK_BYTES // (8 * n))
    index = np.empty((n, k), dtype=np.int64)
    radius = np.empty(n)
    everyone = np.arange(n)
    for start in range(0, n, rows):
        here = slice(start, min(start + rows, n))
        rough = square - 2.0 * (centred[here] @ centred.T)  # |y|^2 - 2xy: same order as |x - y|^2
        near = np.argpartition(rough, spare - 1, axis=1)[:, :spare]
        left_out = np.take_along_axis(rough, near, axis=1).max(axis=1) + square[here] - rounding[here]  # all are beyond
        chosen, exact = np.empty((len(near), k + 1), dtype=np.int64), np.empty((len(near), k + 1))
        for i, candidates in enumerate(near):
            chosen[i], exact[i] = _nearest(points, start + i, candidates, k + 1)
            if spare < n and exact[i, -1] > max(0.0, left_out[i]) * (1 + 1e-9):
                chosen[i], exact[i] = _nearest(points, start + i, everyone, k + 1)
        index[here], radius[here] = _without_self(chosen, np.sqrt(exact), first=start)
    return index, radius


def _nearest(
    points: NDArray[np.float64], i: int, candidates: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The `count` candidates nearest to particle i, in order, and their squared distances."""
    gap = points[candidates] - points[i]
    square = np.einsum("cd,cd->c", gap, gap)
    order = np.argsort(square, kind="stable")[:count]
    return candidates[order], square[order]


def _without_self(
    index: NDArray[np.int64], distance: NDArray[np.float64], first: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Drop each particle from its own k + 1 nearest; returns index (n, k) and distance to the k-th (n,).

    Among particles that coincide, a particle need not be listed first, or at all: then the last one goes.
    """
    n, k_plus_1 = index.shape
    other = index != np.arange(first, first + n)[:, None]
    other[other.all(axis=1), -1] = False
    keep = (n, k_plus_1 - 1)
    return index[other].reshape(keep), distance[other].reshape(keep)[:, -1].copy()

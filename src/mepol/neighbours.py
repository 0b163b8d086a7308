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

# A k-d tree wins while a query meets few of its leaves; then brute force does (docs/decisions.md, "Neighbour search").
TREE_SURE_DIM = 5  # up to this many features it always wins
TREE_MAX_DIM = 100  # above this many, what it keeps for every node on its way costs more than all distances
TREE_MAX_SHARE = 1 / 6  # of the leaves, touched by an average query
LEAF = 16  # particles in a leaf
BLOCK_BYTES = 64 * 2**20  # of gathered candidates


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
    tree = KDTree(points, leafsize=LEAF, balanced_tree=False) if dim <= TREE_MAX_DIM else None
    if tree and (dim <= TREE_SURE_DIM or touched_share(tree, k) <= TREE_MAX_SHARE):
        index, radius = _search_tree(tree, k, workers)
    else:
        index, radius = _search_all(points, k)
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


def touched_share(tree: KDTree, k: int, queries: int = 32) -> float:
    """Share of the leaves that the ball to the k-th neighbour touches, for an average of evenly spread particles.

    A search must open these. It says what the tree is worth, whatever the cause: features, neighbours, or how far
    trajectories keep apart. Runs of particles in the tree's own order stand for its leaves, which SciPy does not show.
    """
    points = np.asarray(tree.data)
    n = len(points)
    runs = np.arange(0, n, LEAF)
    leaves = points[tree.indices]
    low, high = np.minimum.reduceat(leaves, runs, axis=0), np.maximum.reduceat(leaves, runs, axis=0)
    chosen = points[np.linspace(0, n - 1, min(n, queries)).astype(int)]
    radius = np.asarray(tree.query(chosen, k=k + 1)[0])[:, -1]
    shares = []
    for point, reach in zip(chosen, radius, strict=True):
        gap = np.maximum(np.maximum(low - point, point - high), 0.0)  # (leaves, D) from the point to each box
        shares.append(np.mean(np.einsum("ld,ld->l", gap, gap) <= reach**2))
    return float(np.mean(shares))


def _search_tree(tree: KDTree, k: int, workers: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    distance, index = tree.query(tree.data, k=k + 1, workers=workers)
    return _without_self(np.asarray(index, dtype=np.int64), np.asarray(distance))


def _search_all(points: NDArray[np.float64], k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Every distance, by scikit-learn's blocked matrix products; the kept ones are recomputed without cancellation.

    A row whose candidates the rounding of the products may have got wrong is searched again in full.
    """
    from sklearn.neighbors import NearestNeighbors  # not before it is needed: it takes a second to import

    n, dim = points.shape
    centred = points - points.mean(axis=0)
    square = np.einsum("nd,nd->n", centred, centred)
    rounding = (dim + 4) * np.finfo(np.float64).eps * (square + square.max())  # (N,) of |x|^2 - 2xy + |y|^2
    spare = min(n, k + 1 + 8)  # candidates beyond k + 1 absorb most of it
    distance, near = NearestNeighbors(n_neighbors=spare, algorithm="brute").fit(centred).kneighbors(centred)
    left_out = distance[:, -1] ** 2 - rounding  # the rest are beyond
    index = np.empty((n, k), dtype=np.int64)
    radius = np.empty(n)
    rows = max(1, BLOCK_BYTES // (8 * spare * dim))
    for start in range(0, n, rows):
        here = slice(start, min(start + rows, n))
        chosen, exact = _nearest(points, points[here], near[here], k + 1)
        if spare < n:
            for i in np.flatnonzero(exact[:, -1] > np.maximum(0.0, left_out[here]) * (1 + 1e-9)):
                chosen[i], exact[i] = _nearest(points, points[start + i, None], np.arange(n)[None], k + 1)
        index[here], radius[here] = _without_self(chosen, np.sqrt(exact), first=start)
    return index, radius


def _nearest(
    points: NDArray[np.float64], queries: NDArray[np.float64], candidates: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of each row of candidates (Q, C), the `count` nearest to its query, in order, and their squared distances."""
    gap = points[candidates] - queries[:, None]
    square = np.einsum("qcd,qcd->qc", gap, gap)
    order = np.argsort(square, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(candidates, order, axis=1), np.take_along_axis(square, order, axis=1)


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

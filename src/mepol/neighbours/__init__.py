"""Exact k nearest neighbours of particles in a batch, and the log-volumes of their balls.

Letters: N particles, D entropy features, K neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from scipy.spatial import KDTree

from mepol.errors import CoincidentParticlesError, ParticleError
from mepol.neighbours.brute import Brute
from mepol.neighbours.places import Places, places
from mepol.neighbours.pool import Pool, Threads, pieces_of
from mepol.neighbours.threads import torch_threads

__all__ = [
    "Near",
    "Neighbours",
    "Places",
    "Pool",
    "Workers",
    "log_unit_ball",
    "nearest",
    "neighbours",
    "places",
    "torch_threads",
    "touched_share",
]

Workers = int | Pool
"""Who searches: so many threads, -1 for all, or a pool."""

# A k-d tree wins while a query meets few of its leaves; then brute force does (docs/method/decisions.md, at the end).
TREE_SURE_DIM = 5  # up to this many features it always wins
TREE_MAX_DIM = 100  # above this many, what it keeps for every node on its way costs more than all distances
TREE_MAX_SHARE = 1 / 6  # of the leaves, touched by an average query
LEAF = 16  # particles in a leaf

POOL_LEAST = 20_000  # particles below which sending them to a pool takes longer than the search
PLAIN_EXPONENT = 100  # coordinates up to 2^+-100 are squared as they are, larger and smaller ones are scaled before
FAINT = 2.0**-500  # a distance whose square has lost digits, or all


@dataclass(frozen=True)
class Neighbours:
    """Who is near whom in one batch. Fixed while the weights move.

    index:      (N, K) int64, the k nearest particles of each particle, itself excluded, nearest first.
    log_volume: (N,) float64, ln of the volume of the D-ball that reaches the k-th neighbour.
    coinciding: particles whose ball was smaller than the floor, and was given its size.
    """

    index: NDArray[np.int64]
    log_volume: NDArray[np.float64]
    coinciding: int = 0

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


Near = Neighbours | Places
"""Neighbourhoods of a batch's particles: balls, or the places of finitely many states."""


def neighbours(
    x: ArrayLike,
    k: int,
    *,
    eps: float = 0.0,
    workers: Workers = -1,
    names: Sequence[str] | None = None,
    floor: float = 0.0,
) -> Neighbours:
    """The k nearest neighbours of each row of `x` (N, D), exact, in memory linear in N·k.

    eps: a volume (in the units of x to the power D) added to each ball, as the authors do on MountainCar.
         With the default 0, particles that coincide with all of their k neighbours are an error.
    workers: threads of the search, -1 for all, or a pool (`mepol.cluster`) that many particles are divided among; the
         result does not depend on it.
    names: of the D features, for an error to speak of them.
    floor: a distance, in the units of x, that no ball falls below: particles nearer than that are one place. Above 0
         neither coinciding particles nor a coordinate that stands still are an error.
    """
    points, exponent = _scaled(_checked(x, k, names, may_stand=floor > 0.0))
    dim = points.shape[1]
    index, distance = nearest(points, k, workers)
    least = math.ldexp(floor, -exponent)
    coinciding = int(np.count_nonzero(distance[:, -1] < least))
    radius = np.maximum(distance[:, -1], least)
    if not eps > 0.0 and not floor > 0.0:
        _check_apart(points, index, radius, exponent)
    with np.errstate(divide="ignore"):
        log_volume = dim * (np.log(radius) + exponent * math.log(2.0)) + log_unit_ball(dim)
    if eps > 0.0:
        log_volume = np.logaddexp(log_volume, math.log(eps))
    return Neighbours(index, log_volume, coinciding)


def nearest(
    points: NDArray[np.float64], k: int, workers: Workers = -1
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Index (N, K) and distance (N, K) of the k < N nearest others of each of (N, D) finite points, nearest first.

    Points may coincide, and a coordinate may be the same in all. workers: as of `neighbours`; changes no result.
    """
    n, dim = points.shape
    if not isinstance(workers, int) and n < POOL_LEAST:
        workers = -1
    tree = KDTree(points, leafsize=LEAF, balanced_tree=False) if dim <= TREE_MAX_DIM else None
    if tree and (dim <= TREE_SURE_DIM or touched_share(tree, k) <= TREE_MAX_SHARE):
        return _search_tree(tree, k, workers)
    return _search_all(points, k, workers)


def log_unit_ball(dim: int) -> float:
    """ln of the volume of the unit ball in R^dim: ln(pi^(dim/2) / Gamma(dim/2 + 1))."""
    return 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim + 1.0)


def _checked(x: ArrayLike, k: int, names: Sequence[str] | None, *, may_stand: bool) -> NDArray[np.float64]:
    points = np.ascontiguousarray(x, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] == 0:
        raise ParticleError(f"particles must have shape (N, D) with D >= 1, not {points.shape}")
    n, dim = points.shape
    if names is not None and len(names) != dim:
        raise ParticleError(f"{dim} features need as many names, not {len(names)}")
    if not 1 <= k < n:
        raise ParticleError(f"k = {k} is not in [1, N - 1] for N = {n} particles; lower k or sample more")
    finite = np.isfinite(points).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ParticleError(
            f"{n - int(finite.sum())} of {n} particles are NaN or infinite, the first is particle {row}"
        )
    flat = np.flatnonzero(points.max(axis=0) == points.min(axis=0))
    if (
        flat.size and flat.size < dim and not may_stand
    ):  # where all are, the particles coincide, which is told with its own remedies
        label = [f"feature {i if names is None else names[i]}" for i in flat.tolist()]
        raise ParticleError(
            ", ".join(f"{text} is {points[0, i]:g}" for text, i in zip(label, flat, strict=True))
            + f" in all {n} particles: the entropy is minus infinity; leave "
            + ("it" if flat.size == 1 else "them")
            + " out of the entropy features"
        )
    return points


def _scaled(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Points (N, D) whose squares neither overflow nor vanish, and the power of two that leads back.

    A power of two changes no digit. Coordinates of a usual size are left as they are.
    """
    exponent = int(np.frexp(np.abs(points).max())[1])
    if abs(exponent) <= PLAIN_EXPONENT:
        return points, 0
    return np.ldexp(points, -exponent), exponent


def _check_apart(
    points: NDArray[np.float64], index: NDArray[np.int64], radius: NDArray[np.float64], exponent: int
) -> None:
    """Refuse particles without a distance to their k-th neighbour, or with one too small beside the rest to square."""
    (n, k), first = index.shape, int(np.argmin(radius))
    if radius[first] >= FAINT:
        return
    gap = np.abs(points[first] - points[index[first, -1]]).max()
    if gap > 0.0:
        size = np.abs(points).max()
        raise ParticleError(
            f"particle {first} is within {np.ldexp(gap, exponent):g} of its k={k} nearest neighbours, while "
            f"coordinates reach {np.ldexp(size, exponent):g}: no square holds both; bring the features to similar sizes"
        )
    raise CoincidentParticlesError(
        f"{int(np.count_nonzero(radius == 0.0))} of {n} particles coincide with their k={k} nearest neighbours, "
        f"the first is particle {first}; "
        "raise k, add a small volume with eps (the paper's MountainCar uses 1e-15), or hold them apart by "
        "--coinciding floor"
    )


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


def _search_tree(tree: KDTree, k: int, workers: Workers) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """One tree; its queries know nothing of each other, so that they may be asked anywhere."""
    if isinstance(workers, int):
        return _without_self(*_query((tree, k, workers), slice(0, tree.n)))
    found = workers.map(_query, (tree, k, 1), pieces_of(tree.n, workers.size))
    return _without_self(*map(np.concatenate, zip(*found, strict=True)))


def _query(asked: tuple[KDTree, int, int], rows: slice) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Index and distance (R, K+1) of the nearest of some of a tree's own points, on so many threads."""
    tree, k, threads = asked
    distance, index = tree.query(tree.data[rows], k=k + 1, workers=threads)
    return np.asarray(index, dtype=np.int64), np.asarray(distance)


def _search_all(
    points: NDArray[np.float64], k: int, workers: Workers = -1
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    brute = Brute.over(points, k)
    if isinstance(workers, int):
        found = Threads(workers).map(Brute.search, brute, brute.blocks(slice(0, len(points))))
    else:
        found = workers.map(Brute.search_in_blocks, brute, pieces_of(len(points), workers.size))
    return _without_self(*map(np.concatenate, zip(*found, strict=True)))


def _without_self(
    index: NDArray[np.int64], distance: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Drop each particle from its own k + 1 nearest; returns index (n, k) and distance (n, k).

    Among particles that coincide, a particle need not be listed first, or at all: then the last one goes.
    """
    n, k_plus_1 = index.shape
    other = index != np.arange(n)[:, None]
    other[other.all(axis=1), -1] = False
    keep = (n, k_plus_1 - 1)
    return index[other].reshape(keep), distance[other].reshape(keep)

"""Particles of finitely many states: the neighbourhood of one is all that are equal to it, its place.

Volumes and masses are chosen so that the estimators (estimators.py) are the plug-in ones of the places, exactly. With
c_i particles in the place of i, and P_i the weight that they hold together,

    ln V_i = psi(k) - ln c_i,    W_i = k P_i / c_i

turn Eq. 1 into -1/N sum_i ln(c_i / N), Eq. 2 into -sum P ln P over the places, and Eq. 3 into their KL, whatever k.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import LinearOperator
from scipy.special import digamma

from mepol.errors import ParticleError


@dataclass(frozen=True)
class Places:
    """Who is where in one batch: what `Neighbours` is where distances mean something.

    place: (N,) int64, the number of each particle's place, 0 .. P-1. k: of Eq. 1 to 3, in which it cancels.
    """

    place: NDArray[np.int64]
    k: int
    coinciding: int = 0
    """None is held apart from another: those that are equal are one place, and counted."""

    @property
    def n(self) -> int:
        """Number of particles N."""
        return len(self.place)

    @cached_property
    def count(self) -> NDArray[np.int64]:
        """(P,) how many particles lie in each place."""
        return np.bincount(self.place)

    @cached_property
    def log_volume(self) -> NDArray[np.float64]:
        """(N,) psi(k) - ln c_i."""
        volumes: NDArray[np.float64] = digamma(self.k) - np.log(self.count)
        return volumes[self.place]

    @cached_property
    def adjacency(self) -> LinearOperator:
        """(N, N) so that W = adjacency @ w: all of a place share its weight, times k. It is its own transpose."""
        into = csr_matrix((np.ones(self.n), self.place, np.arange(self.n + 1)), shape=(self.n, len(self.count)))

        def masses(weights: NDArray[np.float64]) -> Any:
            return into @ (self.k / self.count * (into.T @ weights.ravel()))

        return LinearOperator((self.n, self.n), matvec=masses, rmatvec=masses, dtype=np.float64)


def places(x: ArrayLike, k: int) -> Places:
    """The places of the rows of `x` (N, D), two of which are one place where they are equal."""
    points = np.ascontiguousarray(x, dtype=np.float64) + 0.0  # -0 is 0
    if points.ndim != 2 or not points.size:
        raise ParticleError(f"particles must have shape (N, D) with N, D >= 1, not {points.shape}")
    if k < 1:
        raise ParticleError(f"k = {k} is not possible: it must be at least 1")
    if not np.isfinite(points).all():
        row = int(np.argmin(np.isfinite(points).all(axis=1)))
        raise ParticleError(f"a particle is NaN or infinite, the first is particle {row}")
    seen: dict[bytes, int] = {}
    numbers = (seen.setdefault(row.tobytes(), len(seen)) for row in points)  # sorting long rows takes seconds
    return Places(np.fromiter(numbers, np.int64, len(points)), k)

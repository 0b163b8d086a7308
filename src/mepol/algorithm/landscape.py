"""What a climb sees of a batch: how even its particles lie, and how that changes as they are weighted.

An objective is what `search(batch)` returns. The paper's is the k-nearest-neighbour entropy; another estimator is one
small class with the same four members (docs/guide/extending.md has one).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mepol.estimators import entropy, neighbour_mass, state_kl, weighted_entropy
from mepol.neighbours import Near, Workers, neighbours


class Landscape(Protocol):
    """The objective over the N particles of one batch, in the order of `Batch.particles`. Fixed while weights move."""

    @property
    def n(self) -> int:
        """Number of particles N."""
        ...

    def entropy(self) -> float:
        """Entropy of the density that drew the particles, in nats (Eq. 1)."""
        ...

    def weighted(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Entropy of the density that normalised weights (N,) float64 make of the particles (Eq. 2), and the KL to it
        from the one that drew them (Eq. 3); two scalars in nats, differentiable in the weights.
        """
        ...

    def worth(self) -> NDArray[np.float64]:
        """(N,) what one particle adds to the entropy, in nats, up to a constant: the more the emptier its place."""
        ...


@dataclass(frozen=True)
class KnnLandscape:
    """The paper's objective: k-nearest-neighbour estimates over the neighbours of one batch.

    prior: (N,) float64 normalised weights of the particles before any climb, where they do not count alike: then
    Eq. 1 is Eq. 2 with these, and Eq. 3 compares with the density that they make.
    """

    near: Near
    prior: Tensor | None = None

    @staticmethod
    def of(
        x: ArrayLike, k: int, *, eps: float = 0.0, workers: Workers = -1, names: Sequence[str] | None = None
    ) -> KnnLandscape:
        """Over the particles in the rows of `x` (N, D); eps, workers and names as of `neighbours`."""
        return KnnLandscape(neighbours(x, k, eps=eps, workers=workers, names=names))

    @property
    def n(self) -> int:
        """Number of particles N."""
        return self.near.n

    def entropy(self) -> float:
        """Eq. 1, in nats."""
        if self.prior is None:
            return entropy(self.near)
        return float(weighted_entropy(neighbour_mass(self.prior, self.near), self.near))

    def weighted(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Eq. 2 and Eq. 3 of weights (N,), in nats."""
        mass = neighbour_mass(weights, self.near)  # W (N,)
        before = None if self.prior is None else neighbour_mass(self.prior, self.near)
        return weighted_entropy(mass, self.near), state_kl(mass, self.near, before)

    def worth(self) -> NDArray[np.float64]:
        """(N,) ln V_i, the log-volume of each particle's neighbourhood; per weight in it, where they count unlike."""
        if self.prior is None:
            return self.near.log_volume
        mass = neighbour_mass(self.prior, self.near).clamp_min(torch.finfo(torch.float64).tiny)
        return np.asarray(self.near.log_volume - mass.log().numpy())

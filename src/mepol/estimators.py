"""The paper's estimators, Eq. 1-3: k-nearest-neighbour entropy, its importance-weighted form, and the KL.

    Eq. 1  H_k(f)      = -1/N sum_i ln(k / (N V_i))       + ln k - psi(k)
    Eq. 2  H_k(f' | f) = -    sum_i W_i/k ln(W_i / V_i)   + ln k - psi(k),   W_i = sum of w_j over N_i^k
    Eq. 3  KL(f || f') =  1/N sum_i ln((k / N) / W_i)

The paper writes V_i^k with a power of the radius; here volumes are logarithms, so D = 200 cannot overflow.
The neighbour set N_i^k excludes i, as the paper has it (the authors' code includes it; docs/method/decisions.md, 1).

Three functions take arrays and stand alone; their torch counterparts, differentiable in the weights,
are what the algorithm climbs. All results are in nats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import digamma
from torch import Tensor

from mepol.errors import ParticleError
from mepol.neighbours import Near, Workers, neighbours


def knn_entropy(
    x: ArrayLike, k: int, *, eps: float = 0.0, workers: Workers = -1, names: Sequence[str] | None = None
) -> float:
    """Differential entropy, in nats, of the density that drew the rows of `x` (N, D). Eq. 1.

    eps, workers, names: as of `neighbours`.

    >>> import numpy as np, mepol
    >>> x = np.random.default_rng(0).uniform(0, 2, (5000, 2))  # ln 4 = 1.386
    >>> round(mepol.knn_entropy(x, k=4), 1)
    1.4
    """
    return entropy(neighbours(x, k, eps=eps, workers=workers, names=names))


def weighted_knn_entropy(
    x: ArrayLike,
    weights: ArrayLike,
    k: int,
    *,
    eps: float = 0.0,
    workers: Workers = -1,
    names: Sequence[str] | None = None,
) -> float:
    """Entropy, in nats, of the density f' from rows of `x` (N, D) drawn from f. Eq. 2.

    weights: (N,) proportional to f'(x) / f(x); they need not be normalised.
    eps, workers, names: as of `neighbours`.

    >>> import numpy as np, mepol
    >>> x = np.random.default_rng(0).uniform(0, 2, (5000, 2))
    >>> round(mepol.weighted_knn_entropy(x, x[:, 0] < 1, k=4), 1)  # uniform over half of it: ln 2 = 0.693
    0.7
    """
    near = neighbours(x, k, eps=eps, workers=workers, names=names)
    return float(weighted_entropy(neighbour_mass(_normalised(weights, near.n), near), near))


def knn_kl(
    x: ArrayLike, weights: ArrayLike, k: int, *, workers: Workers = -1, names: Sequence[str] | None = None
) -> float:
    """KL(f || f'), in nats, from rows of `x` (N, D) drawn from f; weights as in `weighted_knn_entropy`. Eq. 3.

    An estimate: it may fall slightly below 0. A neighbourhood without any weight makes it infinite.

    >>> import numpy as np, mepol
    >>> x = np.random.default_rng(0).uniform(0, 1, (5000, 1))
    >>> round(mepol.knn_kl(x, 2 * x[:, 0], k=100), 1)  # f' = 2x: 1 - ln 2 = 0.307
    0.3
    """
    tiny = float(np.finfo(np.float64).tiny)
    near = neighbours(x, k, eps=tiny, workers=workers, names=names)  # volumes play no part in Eq. 3
    return float(state_kl(neighbour_mass(_normalised(weights, near.n), near), near))


def entropy(near: Near) -> float:
    """Entropy of the sampling density, in nats (Eq. 1)."""
    return float(near.log_volume.mean()) - math.log(near.k / near.n) + _bias(near.k)


def neighbour_mass(weights: Tensor, near: Near) -> Tensor:
    """W (N,) of Eq. 2: the weight that lies in each particle's neighbourhood; differentiable in `weights` (N,)."""
    mass: Tensor = _NeighbourSum.apply(weights, near)  # type: ignore[no-untyped-call]
    return mass


def weighted_entropy(mass: Tensor, near: Near) -> Tensor:
    """Entropy of the weighted density, in nats (Eq. 2), from neighbour masses (N,)."""
    log_volume = torch.from_numpy(near.log_volume)
    return -_total(torch.xlogy(mass, mass) - mass * log_volume) / near.k + _bias(near.k)


def state_kl(mass: Tensor, near: Near, prior: Tensor | None = None) -> Tensor:
    """KL(sampled || weighted), in nats (Eq. 3), from neighbour masses (N,).

    prior: neighbour masses (N,) of the density that is compared with, where it is not the one that drew the particles
    but weighted itself, as that of discounted states: sum_i U_i/k ln(U_i / W_i), which for U_i = k/N is Eq. 3.
    """
    if prior is not None:
        return _total(torch.xlogy(prior, prior) - torch.xlogy(prior, mass)) / near.k
    return math.log(near.k / near.n) - _total(mass.log()) / near.n


def effective_sample_size(weights: Tensor) -> Tensor:
    """1 / sum w^2 for normalised weights (N,): N when equal, 1 when one particle holds all the weight."""
    return 1.0 / _total(weights.square())


def _total(values: Tensor) -> Tensor:
    """Sum of (N,) in rows of a fixed length: torch splits one long sum by threads, and so its last digit."""
    rows = torch.nn.functional.pad(values, (0, -len(values) % 4096)).view(-1, 4096)
    return rows.sum(1).sum()


def _bias(k: int) -> float:
    return math.log(k) - float(digamma(k))


class _NeighbourSum(torch.autograd.Function):
    """adjacency @ weights. Sparse products sum in a fixed order, so threads cannot change a digit."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, weights: Tensor, near: Near) -> Tensor:
        ctx.near = near  # type: ignore[attr-defined]
        return torch.from_numpy(near.adjacency @ weights.detach().numpy())

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor) -> tuple[Tensor, None]:
        near: Near = ctx.near  # type: ignore[attr-defined]
        return torch.from_numpy(near.adjacency.T @ grads[0].numpy()), None


def _normalised(weights: ArrayLike, n: int) -> Tensor:
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (n,):
        raise ParticleError(f"weights must have shape ({n},), one a particle, not {w.shape}")
    total = float(w.sum())
    if not (w >= 0.0).all() or not math.isfinite(total) or total <= 0.0:
        raise ParticleError("weights must be finite, not negative, and not all zero")
    return torch.from_numpy(w / total)

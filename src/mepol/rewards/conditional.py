"""Value-conditional state entropy (VCSE, Kim et al. 2023): a state is worth how far others of a like value are.

    distance  d_ij = max(|s_i - s_j|, |v_i - v_j|)                         Euclidean in the D features, and in the value
    ball      eps_i = d_ij of the k-th nearest other
    reward    r_i = psi(n_i + 1) / D + ln(2 eps_i),                        n_i others with |v_i - v_j| < eps_i
    entropy   H(S | V) = D mean(r) - psi(k) + ln(volume of the D-ball of diameter 1)

The last line is the estimator of Kraskov et al. (2004), H(S, V) - H(V) with one ball for both, so that the mean reward
is the entropy up to a constant. Where all states have one value the reward is that of the states alone.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import digamma

from mepol.neighbours import log_unit_ball

Floats = NDArray[np.float64]
POOL = (
    1024  # states among which neighbours are sought, at least: all pairs of a whole batch would cost more than to learn
)


def value_conditional(points: Floats, values: Floats, k: int, *, floor: float, pool: int = POOL) -> Floats:
    """(N,) reward of each of (N, D) points with (N,) values, in nats per feature.

    Neighbours are sought in pools of `pool` to 2 `pool` points, each point in one of them: every so many-th point, so
    that no generator is asked and a pool has its share of every time. floor: above 0, in the units of both: no ball is
    smaller, so that coinciding points are paid a finite reward. k < N.
    """
    paid = np.empty(len(points))
    parts = max(1, len(points) // max(pool, k + 1))
    for part in range(parts):
        rows = slice(part, None, parts)
        paid[rows] = _among(points[rows], values[rows], k, floor)
    return paid


def conditional_entropy(paid: Floats, k: int, dim: int) -> float:
    """H(S | V) in nats from (N,) rewards with k neighbours in `dim` features, in the units that these were given in."""
    return dim * float(paid.mean()) - float(digamma(k)) + log_unit_ball(dim) - dim * math.log(2.0)


def _among(points: Floats, values: Floats, k: int, floor: float) -> Floats:
    """The reward where all points are in one pool."""
    apart = np.abs(values[:, None] - values)
    np.fill_diagonal(apart, np.inf)  # none is its own neighbour
    joint = np.maximum(cdist(points, points), apart)
    joint.partition(k - 1, axis=1)
    eps = np.maximum(joint[:, k - 1], floor)
    alike = np.count_nonzero(apart < eps[:, None], axis=1)
    paid: Floats = digamma(alike + 1.0) / points.shape[1] + np.log(2.0 * eps)
    return paid

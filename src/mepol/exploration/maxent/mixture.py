"""How often each component of the mixture acts."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

DECAY = 0.9  # of the geometric weights, a component; Hazan et al.'s code


def mixture_weights(n: int, kind: Literal["uniform", "geometric"]) -> NDArray[np.float64]:
    """(n,) weights of n components, oldest first.

    "geometric" is what Hazan et al.'s code does: 0.9^(n - j), brought to the simplex by Euclidean projection, not by
    division. From the fifth on, that leaves the five newest components and nothing of the others.
    """
    if kind == "uniform":
        return np.full(n, 1.0 / n)
    return simplex_projection(DECAY ** (n - np.arange(n, dtype=np.float64)))


def simplex_projection(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) the point of the probability simplex nearest to `values` (n,)."""
    falling = np.sort(values)[::-1]
    surplus = (falling.cumsum() - 1.0) / np.arange(1, len(values) + 1)
    threshold = surplus[np.flatnonzero(falling > surplus)[-1]]
    projected = np.maximum(values - threshold, 0.0)
    return np.asarray(projected / projected.sum(), dtype=np.float64)

"""Seconds of a piece of work, and the middle of several."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np


def seconds(work: Callable[[], object]) -> float:
    """Elapsed time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def middle_half(values: Sequence[float]) -> tuple[float, float]:
    """The first and the third quartile."""
    low, high = np.quantile(values, (0.25, 0.75))
    return float(low), float(high)

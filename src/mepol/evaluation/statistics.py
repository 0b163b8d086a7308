"""Intervals over seeds: Student's t around the mean, as in the paper, and a bootstrap around the interquartile mean.

The mean with eight seeds is what the paper's tables give. The interquartile mean (IQM) drops the best and the worst
quarter of the seeds, so that one failed seed does not decide a comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # scipy.stats would take half a second of every command's start


@dataclass(frozen=True)
class Interval:
    """A centre and where it may lie; with a single value there is no interval."""

    centre: float
    low: float | None
    high: float | None
    n: int
    """Values (seeds) it rests on."""

    @property
    def half_width(self) -> float | None:
        """Half of the interval's length, as written after a ±."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def __str__(self) -> str:
        half = self.half_width
        return f"{self.centre:.3f}" if half is None else f"{self.centre:.3f} ± {half:.3f}"


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Mean ± t · s / sqrt(n): Student's interval with n - 1 degrees of freedom."""
    x = _checked(values)
    centre, n = float(x.mean()), len(x)
    if n == 1:
        return Interval(centre, None, None, 1)
    reach = float(stdtrit(n - 1, 0.5 + confidence / 2) * x.std(ddof=1) / math.sqrt(n))
    return Interval(centre, centre - reach, centre + reach, n)


def iqm_interval(
    values: Sequence[float], confidence: float = 0.95, *, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Interquartile mean with a percentile bootstrap interval. Below four values it is the mean: a quarter is none."""
    x = _checked(values)
    centre, n = float(iqm(x)), len(x)
    if n == 1:
        return Interval(centre, None, None, 1)
    drawn = np.random.default_rng(seed).choice(x, (resamples, n))
    low, high = np.quantile(iqm(drawn), [0.5 - confidence / 2, 0.5 + confidence / 2])
    return Interval(centre, float(low), float(high), n)


def iqm(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(..., n) -> (...) mean of what is left when floor(n / 4) values are dropped at either end."""
    n = values.shape[-1]
    kept: NDArray[np.float64] = np.sort(values, axis=-1)[..., n // 4 : n - n // 4].mean(axis=-1)
    return kept


def _checked(values: Sequence[float]) -> NDArray[np.float64]:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or not len(x):
        raise ValueError(f"an interval needs a list of at least one value, not shape {x.shape}")
    return x

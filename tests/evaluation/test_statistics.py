"""Intervals over seeds against hand-computed ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from mepol.evaluation import iqm_interval, mean_interval
from mepol.evaluation.statistics import iqm


def test_the_t_interval_is_the_one_of_the_table() -> None:
    # n = 8: t(0.975, 7) = 2.3646; the values 1..8 have mean 4.5 and standard deviation sqrt(6).
    found = mean_interval([1, 2, 3, 4, 5, 6, 7, 8])
    assert found.centre == 4.5
    assert found.half_width == pytest.approx(2.364624 * math.sqrt(6) / math.sqrt(8), rel=1e-6)
    assert (found.low, found.high) == (pytest.approx(4.5 - 2.047824, 1e-5), pytest.approx(4.5 + 2.047824, 1e-5))
    assert str(found) == "4.500 ± 2.048"


def test_the_t_interval_holds_the_truth_95_times_in_100() -> None:
    rng = np.random.default_rng(0)
    draws = (mean_interval(rng.standard_normal(8).tolist()) for _ in range(2000))
    inside = np.mean([i.low < 0 < i.high for i in draws])
    assert inside == pytest.approx(0.95, abs=0.02)


def test_the_interquartile_mean_drops_a_quarter_at_either_end() -> None:
    assert iqm(np.array([-1000.0, 1, 2, 3, 4, 5, 6, 1000])) == pytest.approx(3.5)
    assert iqm(np.array([1.0, 2, 6])) == pytest.approx(3.0)  # a quarter of three is none
    found = iqm_interval([-1000, 1, 2, 3, 4, 5, 6, 1000])
    assert found.centre == pytest.approx(3.5)
    assert found.low < 3.5 < found.high
    assert found == iqm_interval([-1000, 1, 2, 3, 4, 5, 6, 1000])


def test_one_value_has_no_interval_and_equal_values_a_width_of_zero() -> None:
    for interval in (mean_interval, iqm_interval):
        one, same = interval([2.0]), interval([2.0, 2.0, 2.0])
        assert (one.centre, one.low, one.high, one.half_width, one.n) == (2.0, None, None, None, 1)
        assert str(one) == "2.000"
        assert (same.low, same.high, same.half_width) == (2.0, 2.0, 0.0)
        with pytest.raises(ValueError, match="at least one"):
            interval([])


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20), st.floats(0.5, 0.999))
def test_both_are_scipys(values: list[float], confidence: float) -> None:
    x = np.array(values)
    reach = scipy.stats.t.ppf(0.5 + confidence / 2, len(x) - 1) * scipy.stats.sem(x)
    half = mean_interval(values, confidence).half_width
    assert half == pytest.approx(reach, abs=1e-9)
    assert iqm(x) == pytest.approx(scipy.stats.trim_mean(x, 0.25), abs=1e-9)

"""What docs/method/theory.md says of the three theorems."""

from __future__ import annotations

import math

import pytest

from theory import Pair, bias, gradients, tables, variances


@pytest.mark.parametrize("pair", [Pair(1, 0.5, 0.8), Pair(2, 0.4, 0.8), Pair(3, 0.3, 0.9)], ids=lambda p: f"p={p.p}")
def test_the_bias_of_the_weighted_estimator_falls_with_n(pair: Pair) -> None:
    """Theorem 1, at k = 50, where the bias stands clear of the noise in every dimension."""
    few, few_error = bias(pair, 250, 50, 60)
    many, many_error = bias(pair, 4000, 50, 60)
    assert abs(many) + 2 * many_error < abs(few) + 2 * few_error
    assert abs(many) < 0.12


def test_the_printed_variance_fails_and_the_one_with_covariances_has_the_right_size() -> None:
    """Theorem 2."""
    v = variances(Pair(1, 0.5, 0.8), 1000, 4, 400)
    assert v.printed > 5 * v.measured
    assert 0.5 < v.covariances / v.measured < 2.5


def test_the_printed_variance_grows_with_n_and_the_measured_one_does_not() -> None:
    few, many = (variances(Pair(1, 0.5, 0.8), n, 4, 300) for n in (500, 4000))
    assert many.printed > 1.5 * few.printed
    assert abs(many.measured - few.measured) < 5 * math.hypot(many.measured_error, few.measured_error)


def test_neighbouring_terms_are_correlated_even_with_equal_weights() -> None:
    """With f' = f both corrected formulas are Var[T]; the measured variance is not."""
    v = variances(Pair(1, 0.0, 1.0), 1000, 1, 1000)
    assert v.covariances == pytest.approx(v.normalised)
    assert abs(v.measured - v.covariances) > 3 * v.measured_error


def test_the_gradient_theorem_holds_with_one_in_place_of_v() -> None:
    """Theorem 3."""
    g = gradients()
    assert g.autograd < 1e-7
    assert g.corrected < 1e-7
    assert g.printed > 1e-2


def test_the_tables_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theory.PAIRS", ())
    text = tables()
    assert "Theorem 1" in text
    assert text.count("f itself") == 6

"""Value-conditional entropy against brute force, against the entropy of a Gaussian, and at its edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import digamma

from mepol.estimators import knn_entropy
from mepol.rewards.conditional import POOL, conditional_entropy, value_conditional


def by_hand(points: np.ndarray, values: np.ndarray, k: int) -> list[float]:
    """The definition, pair by pair."""
    rewards = []
    for i in range(len(points)):
        others = [j for j in range(len(points)) if j != i]
        joint = sorted(max(math.dist(points[i], points[j]), abs(values[i] - values[j])) for j in others)
        eps = joint[k - 1]
        alike = sum(abs(values[i] - values[j]) < eps for j in others)
        rewards.append(digamma(alike + 1) / points.shape[1] + math.log(2 * eps))
    return rewards


@pytest.mark.parametrize("k", [1, 12])
@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0])  # of the value beside the states': they decide, both do, it does
def test_the_reward_is_the_definition(k, spread):
    rng = np.random.default_rng(k)
    points, values = rng.normal(size=(60, 3)), spread * rng.normal(size=60)
    np.testing.assert_allclose(value_conditional(points, values, k, floor=1e-9), by_hand(points, values, k), rtol=1e-12)


def test_a_long_batch_is_divided_into_pools_of_every_so_many_th():
    rng = np.random.default_rng(0)
    points, values = rng.normal(size=(47, 2)), rng.normal(size=47)
    paid = value_conditional(points, values, 3, floor=1e-9, pool=15)
    for part in range(3):
        rows = slice(part, None, 3)
        np.testing.assert_allclose(paid[rows], by_hand(points[rows], values[rows], 3), rtol=1e-12)


def test_the_mean_reward_is_the_entropy_of_a_gaussian_given_the_value():
    rng, rho = np.random.default_rng(1), 0.8
    values = rng.normal(size=2 * POOL - 1)
    points = np.stack(
        [rho * values + math.sqrt(1 - rho**2) * rng.normal(size=len(values)), rng.normal(size=len(values))]
    )
    paid = value_conditional(points.T, values, 12, floor=1e-9)
    truth = math.log(2 * math.pi * math.e) + 0.5 * math.log(1 - rho**2)
    assert conditional_entropy(paid, 12, 2) == pytest.approx(truth, abs=0.05)
    assert knn_entropy(points.T, 12) == pytest.approx(math.log(2 * math.pi * math.e), abs=0.05)  # the value counts


def test_where_all_have_one_value_the_states_alone_are_paid():
    points = np.random.default_rng(2).normal(size=(500, 2))
    paid = value_conditional(points, np.ones(500), 4, floor=1e-9)
    alone = knn_entropy(points, 4) + digamma(500) - math.log(500)  # Kraskov's constant for Eq. 1's
    assert conditional_entropy(paid, 4, 2) == pytest.approx(alone, rel=1e-9)


def test_coinciding_points_are_paid_by_the_floor():
    points = np.zeros((20, 2))
    points[:5] = np.random.default_rng(3).normal(size=(5, 2))
    paid = value_conditional(points, np.zeros(20), 4, floor=1e-3)
    np.testing.assert_allclose(paid[5:], digamma(20) / 2 + math.log(2e-3))
    assert paid[:5].min() > paid[5:].max()

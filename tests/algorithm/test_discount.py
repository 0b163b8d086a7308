"""Discounted states: the entropy of a known mixture, and gamma = 1 as ever."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

import mepol
from mepol.algorithm.batch import Batch, Paths
from mepol.algorithm.landscape import KnnLandscape
from mepol.algorithm.loop import importance_weights

T = 60


def walks(m: int, drift: float = 0.0, seed: int = 0) -> Batch:
    """Random walks of T steps with standard normal moves; an action is its move."""
    moves = drift + np.random.default_rng(seed).normal(size=(m, T, 1))
    states = np.concatenate([np.zeros((m, 1, 1)), moves.cumsum(axis=1)], axis=1)
    return Batch(states, moves.astype(np.float32), np.full(m, T))


def entropy_of_mixture(gamma: float, drift: float = 0.0) -> float:
    """Of sum_t gamma^t N(t drift, t) over t = 1 .. T, normalised; integrated numerically."""
    t = np.arange(1, T + 1)
    weights = gamma**t / (gamma**t).sum()

    def density(x: float) -> float:
        return float(weights @ norm.pdf(x, t * drift, np.sqrt(t)))

    def integrand(x: float) -> float:
        p = density(x)
        return -p * np.log(p) if p > 0 else 0.0

    return float(quad(integrand, -60, 60 + T * drift, limit=400, points=[0.0])[0])


@pytest.mark.parametrize("gamma", [0.8, 0.95, 0.99, 1.0])
def test_the_entropy_of_a_discounted_random_walk(gamma: float) -> None:
    batch = walks(400)
    landscape = KnnLandscape(KnnLandscape.of(batch.particles((0,)), 50).near, batch.discounted(gamma))
    assert landscape.entropy() == pytest.approx(entropy_of_mixture(gamma), abs=0.08)


def test_weights_agree_with_geometric_ends() -> None:
    """A trajectory that ends after each step with probability 1 - gamma draws its last state from the same density."""
    gamma, rng = 0.9, np.random.default_rng(1)
    ends = rng.geometric(1 - gamma, size=40_000)
    last = rng.normal(size=int((ends <= T).sum())) * np.sqrt(ends[ends <= T])
    batch = walks(600, seed=2)
    weighted = KnnLandscape(KnnLandscape.of(batch.particles((0,)), 50).near, batch.discounted(gamma)).entropy()
    assert weighted == pytest.approx(mepol.knn_entropy(last[:, None], 50), abs=0.05)


def test_eq_2_and_eq_3_follow_the_discounted_density_of_another_policy() -> None:
    """Ratios of a walk with a drift, on walks without: entropy and KL of two mixtures that are known."""
    gamma, drift = 0.8, 0.1
    batch = walks(3000, seed=3)
    paths = Paths.of(batch, gamma)
    moves = paths.actions[:, 0].double()
    log_ratio = -0.5 * (moves - drift) ** 2 + 0.5 * moves**2
    weights = importance_weights(log_ratio, paths.visited, paths.prior)
    landscape = KnnLandscape(KnnLandscape.of(batch.particles((0,)), 100).near, batch.discounted(gamma))
    entropy, kl = landscape.weighted(weights)
    assert entropy.item() == pytest.approx(entropy_of_mixture(gamma, drift), abs=0.06)
    t = np.arange(1, T + 1)
    share = gamma**t / (gamma**t).sum()

    def gap(x: float) -> float:
        p, q = (float(share @ norm.pdf(x, t * d, np.sqrt(t))) for d in (0.0, drift))
        return p * np.log(p / q) if p > 1e-300 and q > 1e-300 else 0.0

    assert kl.item() == pytest.approx(quad(gap, -40, 40, limit=400, points=[0.0])[0], abs=0.02)


def test_no_discount_is_no_weight() -> None:
    batch = walks(5)
    assert batch.discounted(1.0) is None
    equal = torch.full((batch.size,), 1 / batch.size, dtype=torch.float64)
    near = KnnLandscape.of(batch.particles((0,)), 4).near
    plain, weighted = KnnLandscape(near), KnnLandscape(near, equal)
    assert plain.entropy() == pytest.approx(weighted.entropy(), abs=1e-12)
    tilt = torch.softmax(torch.linspace(0, 1, batch.size, dtype=torch.float64), 0)
    for a, b in zip(plain.weighted(tilt), weighted.weighted(tilt), strict=True):
        assert a.item() == pytest.approx(b.item(), abs=1e-12)


@pytest.mark.parametrize("rule", ["importance", "advantage"])
def test_runs_take_it_and_their_index_is_of_it(rule: str, tmp_path: Path) -> None:
    settings = {
        "epochs": 2,
        "horizon": 60,
        "trajectories": 10,
        "evaluation_trajectories": 20,
        "hidden": (16,),
        "eps": 1e-6,
    }
    early, late = (
        mepol.explore(
            "gridworld",
            state_discount=gamma,
            rule=rule,
            out=tmp_path / str(gamma),
            progress=False,
            **settings,
        )
        for gamma in (0.9, 1.0)
    )
    asked = {"which": "initial", "trajectories": 20}  # the same policy
    assert early.evaluate(**asked).evaluation.index == late.evaluate(discount=0.9, **asked).evaluation.index
    assert early.evaluate(discount=1.0, **asked).evaluation.index == late.evaluate(**asked).evaluation.index
    assert early.metrics["entropy"][0] != late.metrics["entropy"][0]
    assert early.metrics["steps"][0] > 0

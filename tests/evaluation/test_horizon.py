"""Entropies over h and mixing times against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mepol import knn_entropy
from mepol.algorithm.batch import Batch
from mepol.envs.coordinates import Grid
from mepol.errors import ConfigError, ParticleError
from mepol.evaluation import horizon_curve, mixing_time
from mepol.evaluation.horizon import states_until


def batch_of(states: np.ndarray, lengths: np.ndarray | None = None) -> Batch:
    m, t = states.shape[0], states.shape[1] - 1
    return Batch(states, np.zeros((m, t, 1), np.float32), np.full(m, t) if lengths is None else lengths)


def gaussian_walk(m: int, t: int, seed: int = 0) -> Batch:
    steps = np.random.default_rng(seed).standard_normal((m, t + 1, 1))
    steps[:, 0] = 0.0
    return batch_of(steps.cumsum(axis=1))


def test_the_h_step_entropy_of_a_gaussian_walk_is_known() -> None:
    # s_h ~ N(0, h): H = 0.5 ln(2 pi e h).
    rows = horizon_curve(gaussian_walk(4000, 16), [16, 1, 4, 4], features=(0,), k=4)
    assert [row.h for row in rows] == [1, 4, 16]
    for row in rows:
        assert row.step_entropy == pytest.approx(0.5 * math.log(2 * math.pi * math.e * row.h), abs=0.05)
        assert (row.step_particles, row.average_particles) == (4000, 4000 * row.h)
    assert rows[0].average_entropy == rows[0].step_entropy  # one step: d̄_1 = d_1


def test_the_average_entropy_is_that_of_all_steps_together() -> None:
    # Step t is uniform on [t - 1, t]: the average over h steps is uniform on [0, h].
    rng = np.random.default_rng(1)
    states = rng.uniform(size=(500, 9, 1)) + np.arange(-1, 8)[None, :, None]
    rows = horizon_curve(batch_of(states), [2, 8], features=(0,), k=4)
    for row in rows:
        assert row.step_entropy == pytest.approx(0.0, abs=0.1)
        assert row.average_entropy == pytest.approx(math.log(row.h), abs=0.05)


def test_trajectories_that_ended_do_not_count() -> None:
    batch = gaussian_walk(40, 6)
    cut = Batch(batch.states, batch.actions, np.r_[np.full(10, 3), np.full(30, 6)])
    (row,) = horizon_curve(cut, [5], features=(0,), k=2)
    assert (row.step_particles, row.average_particles) == (30, 10 * 3 + 30 * 5)
    assert row.step_entropy == knn_entropy(batch.states[10:, 5], 2)


def test_many_particles_are_thinned_without_replacement() -> None:
    batch = gaussian_walk(50, 10)
    some = states_until(batch, 8, (0,), most=100)
    assert some.shape == (100, 1)
    assert len(np.unique(some)) == 100
    assert np.isin(some, batch.states[:, 1:9]).all()


def test_impossible_horizons_and_too_few_trajectories_are_refused() -> None:
    with pytest.raises(ConfigError, match="horizon = 11 is not possible: it must be from 1 to the 10 steps"):
        horizon_curve(gaussian_walk(5, 10), [11], features=(0,), k=2)
    with pytest.raises(ParticleError, match=r"5 trajectories reach step 3.*k = 5"):
        horizon_curve(gaussian_walk(5, 10), [3], features=(0,), k=5)


HALVES = Grid((0, 1), ("x", "y"), (0.0, 0.0), (2.0, 1.0), (2, 1))


def jumps(m: int, t: int, rate: float) -> Batch:
    """Each trajectory starts in the left half and, with probability `rate` a step, goes right for good."""
    right = np.random.default_rng(0).geometric(rate, m)[:, None] <= np.arange(t + 1)
    states = np.stack([right + 0.5, np.full_like(right, 0.5, dtype=float)], axis=-1)
    return batch_of(states.astype(float))


def test_the_mixing_time_of_a_chain_is_known() -> None:
    # d_t(left) - d_{t-1}(left) = rate (1 - rate)^(t-1): at most epsilon from t = 1 + ln(epsilon / rate) / ln(1 - rate).
    rate, threshold = 0.1, 0.02
    found = mixing_time(jumps(20_000, 40, rate), HALVES, threshold=threshold)
    latest, earliest = (1 + math.log(e / rate) / math.log(1 - rate) for e in (threshold, threshold + 2 * 0.005))
    assert found.resolved
    assert found.noise < 0.005
    assert earliest <= found.steps <= latest + 1  # what is not certain does not count, so rather too early
    assert found.changes[0] == pytest.approx(rate, abs=0.015)


def test_few_trajectories_say_that_they_cannot_tell() -> None:
    found = mixing_time(jumps(30, 80, 0.1), HALVES, threshold=0.005)
    assert not found.resolved
    assert found.noise > found.threshold


def test_a_distribution_that_never_rests_has_no_mixing_time() -> None:
    swing = np.arange(41) % 2
    states = np.stack([np.broadcast_to(swing + 0.5, (100, 41)), np.full((100, 41), 0.5)], axis=-1)
    assert mixing_time(batch_of(states.astype(float)), HALVES, threshold=0.1).steps is None


def test_independent_states_are_mixed_at_once() -> None:
    states = np.random.default_rng(0).uniform(0, [2, 1], (2000, 21, 2))
    assert mixing_time(batch_of(states), HALVES, threshold=0.1).steps == 1
    with pytest.raises(ConfigError, match="threshold = 0"):
        mixing_time(batch_of(states), HALVES, threshold=0.0)

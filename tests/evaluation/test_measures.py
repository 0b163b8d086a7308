"""The evaluation protocol by hand, and the random policy's known numbers on GridWorld."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from mepol import knn_entropy
from mepol.algorithm.batch import Batch
from mepol.envs.coordinates import Grid
from mepol.envs.domain import Domain
from mepol.evaluation import measure_states
from mepol.exploration.policies import make_policy as initial_policy
from mepol.exploration.presets import preset
from mepol.exploration.workshop import open_workshop, protocol_of
from mepol.runs.streams import Stream, stream

GRID = Grid((0, 1), ("x", "y"), (0.0, 0.0), (2.0, 2.0), (2, 2))


def domain(s: int, features: tuple[int, ...], grid: Grid | None = None) -> Domain:
    ends = np.full(s, np.inf)
    names = tuple(str(i) for i in range(s))
    return Domain("any", -ends, ends, -ends[:1], ends[:1], names, features, (1.0,) * len(features), grid)


def test_the_mean_over_episodes_is_not_the_pooled_entropy() -> None:
    rng = np.random.default_rng(0)
    # One trajectory stays in one cell, the other divides itself evenly between two others.
    states = np.zeros((2, 9, 2))
    states[0, 1:] = rng.uniform(0.1, 0.9, (8, 2))
    states[1, 1:5] = np.array([1, 0]) + rng.uniform(0.1, 0.9, (4, 2))
    states[1, 5:] = np.array([1, 1]) + rng.uniform(0.1, 0.9, (4, 2))
    batch = Batch(states, np.zeros((2, 8, 1), dtype=np.float32), np.array([8, 8]))
    result = measure_states(batch, domain(2, (0, 1), GRID), k=2)
    assert result.discrete_entropy == pytest.approx(0.5 * (0.0 + math.log(2)))
    assert result.pooled_entropy == pytest.approx(1.5 * math.log(2))
    assert result.cells == 3
    np.testing.assert_array_equal(result.visits, [[8, 0], [4, 4]])
    assert (result.particles, result.k) == (16, 2)
    assert result.index == knn_entropy(batch.particles((0, 1)), 2)


def test_without_a_grid_there_is_the_index_alone() -> None:
    states = np.random.default_rng(0).standard_normal((2, 9, 3))
    batch = Batch(states, np.zeros((2, 8, 1), dtype=np.float32), np.array([8, 3]))
    result = measure_states(batch, domain(3, (2,)), k=2)
    assert result.index == knn_entropy(batch.particles((2,)), 2)
    assert result.particles == 11
    assert result.discrete_entropy is result.pooled_entropy is result.cells is result.visits is None


def test_a_random_policy_on_gridworld_gives_the_known_numbers() -> None:
    config = preset("gridworld").config
    with open_workshop(config) as workshop:
        policy = initial_policy(config, workshop.domain)
        result = workshop.assess(policy, stream(0, Stream.EVALUATION), protocol_of(config, 100)).evaluation
    assert result.particles == 120_000
    assert result.index == pytest.approx(3.43, abs=0.15)
    assert result.discrete_entropy == pytest.approx(3.50, abs=0.1)
    assert result.discrete_entropy < result.pooled_entropy < math.log(400)


def test_one_seed_fixes_an_evaluation(tiny: Callable, make_policy: Callable) -> None:
    config, policy = tiny(), make_policy(log_std=-1.5)
    with open_workshop(config) as workshop:
        protocol = protocol_of(config, 3)
        results = [workshop.assess(policy, stream(s, Stream.EVALUATION), protocol).evaluation for s in (1, 1, 2)]
    assert results[0].index == results[1].index != results[2].index
    np.testing.assert_array_equal(results[0].visits, results[1].visits)

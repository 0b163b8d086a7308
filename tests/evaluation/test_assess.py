"""One protocol for a policy, a uniform actor and a user's function."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from mepol.envs.domain import Domain
from mepol.errors import ConfigError, EnvironmentFault, PolicyFileError
from mepol.evaluation import Assessment, Protocol, assess
from mepol.exploration.config import ExploreConfig
from mepol.exploration.workshop import open_workshop, protocol_of
from mepol.runs.streams import Stream, stream
from mepol.sampling.actors import Explorer, UniformActor


def measured(explorer: Explorer, config: ExploreConfig, trajectories: int, **asked: object) -> Assessment:
    with open_workshop(config) as workshop:
        protocol = dataclasses.replace(protocol_of(config, trajectories), **asked)
        return assess(explorer, workshop.env(trajectories), workshop.domain, protocol, seed=stream(0, Stream.FRESH))


def test_the_protocol_gives_what_the_runs_own_evaluation_gives(tiny: Callable, make_policy: Callable) -> None:
    config, policy = tiny(), make_policy(log_std=-1.5)
    with open_workshop(tiny(evaluation_trajectories=6)) as own:
        plain = own.assess(policy, stream(0, Stream.FRESH)).evaluation
    whole = measured(policy, config, 6, horizons=(10, 90))
    assert whole.evaluation.index == plain.index  # steps beyond T change nothing of the first T
    np.testing.assert_array_equal(whole.evaluation.visits, plain.visits)
    assert plain.coverage == pytest.approx(np.count_nonzero(plain.visits) / 288)
    assert [row.h for row in whole.horizons] == [10, 90]


def test_a_function_and_a_uniform_actor_are_explorers(tiny: Callable) -> None:
    config = tiny()
    uniform = UniformActor(np.full(2, -0.2, np.float32), np.full(2, 0.2, np.float32))
    still = measured(lambda obs: np.zeros((len(obs), 2)), tiny(eps=1e-9), 5)
    assert still.evaluation.cells <= 5
    moving = measured(uniform, config, 5, pairs=("y,x:-6:6:10",), mixing_threshold=0.3)
    assert moving.evaluation.cells > 5
    assert moving.pairs["y,x:-6:6:10"].visits.shape == (20, 10)
    assert moving.mixing is not None


def test_uniform_actions_fill_their_box_evenly() -> None:
    actor = UniformActor(np.array([-1, 0], np.float32), np.array([1, 3], np.float32))
    drawn = actor.act(np.zeros((20_000, 4)), np.random.default_rng(0))
    assert (drawn.shape, drawn.dtype) == ((20_000, 2), np.float32)
    np.testing.assert_allclose(drawn.mean(0), [0, 1.5], atol=0.02)
    np.testing.assert_allclose(drawn.var(0), [4 / 12, 9 / 12], rtol=0.03)
    assert (drawn >= [-1, 0]).all()
    assert (drawn <= [1, 3]).all()
    np.testing.assert_array_equal(actor.act(np.zeros(4), np.random.default_rng(0), deterministic=True), [0, 1.5])


def test_impossible_protocols_are_refused() -> None:
    for wrong in ({"trajectories": 0}, {"k": 0}, {"horizons": (5, 0)}, {"horizon": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            Protocol(**{"horizon": 10, "k": 4, **wrong})


def test_a_runs_threads_are_those_of_its_evaluations_and_change_nothing(tiny: Callable, make_policy: Callable) -> None:
    assert [protocol_of(tiny(threads=n), 5).workers for n in (1, 3)] == [1, 3]
    few, many = (measured(make_policy(log_std=-1.5), tiny(threads=n), 5, horizons=(30,)) for n in (1, 3))
    assert (few.evaluation.index, few.horizons) == (many.evaluation.index, many.horizons)


def test_features_may_be_a_function_throughout(tiny: Callable, make_policy: Callable) -> None:
    config = tiny()
    with open_workshop(config) as workshop:
        env, seen = workshop.env(5), []
        for features in ("y,x", lambda states: states[:, [1, 0]]):
            domain = Domain.of(env, name=config.env, features=features)
            protocol = dataclasses.replace(protocol_of(config, 5), horizons=(3, 60), k=2)
            seen.append(assess(make_policy(log_std=-1.5), env, domain, protocol, seed=stream(0, Stream.FRESH)))
    assert seen[0].evaluation.index == seen[1].evaluation.index
    assert seen[0].horizons == seen[1].horizons


def test_a_policy_of_another_environment_and_a_batch_of_another_size_are_refused(
    tiny: Callable, make_policy: Callable
) -> None:
    with pytest.raises(PolicyFileError, match="maps 3 state coordinates to 2 actions, and mepol/GridWorld-v0 has 2"):
        measured(make_policy(3, 2), tiny(), 3)
    config = tiny()
    with open_workshop(config) as workshop, pytest.raises(ConfigError, match=r"trajectories = 4 .* env's 3"):
        assess(make_policy(), workshop.env(3), workshop.domain, protocol_of(config, 4), seed=stream(0, Stream.FRESH))


def test_nothing_is_uniform_over_an_unbounded_box() -> None:
    from gymnasium.spaces import Box

    with pytest.raises(EnvironmentFault, match="unbounded"):
        UniformActor.over(Box(-np.inf, np.inf, (2,)))

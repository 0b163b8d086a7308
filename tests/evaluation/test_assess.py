"""One protocol for a policy, a uniform actor and a user's function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mepol.errors import ConfigError, EnvironmentFault
from mepol.evaluation import UniformActor
from mepol.evaluation.assess import Protocol, assess
from mepol.exploration.drive import Stream, evaluate_policy, stream

SEED = stream(0, Stream.FRESH)


def test_the_protocol_gives_what_the_runs_own_evaluation_gives(tiny: Callable, make_policy: Callable) -> None:
    config, policy = tiny(), make_policy(log_std=-1.5)
    plain = evaluate_policy(policy, config, trajectories=6, seed=stream(0, Stream.FRESH))
    whole = assess(policy, config, Protocol(6, horizons=(10, 90)), seed=stream(0, Stream.FRESH))
    assert whole.evaluation.index == plain.index  # steps beyond T change nothing of the first T
    np.testing.assert_array_equal(whole.evaluation.visits, plain.visits)
    assert plain.coverage == pytest.approx(np.count_nonzero(plain.visits) / 288)
    assert [row.h for row in whole.horizons] == [10, 90]


def test_a_function_and_a_uniform_actor_are_explorers(tiny: Callable) -> None:
    config = tiny()
    uniform = UniformActor(np.full(2, -0.2, np.float32), np.full(2, 0.2, np.float32))
    still = assess(lambda obs: np.zeros((len(obs), 2)), tiny(eps=1e-9), Protocol(5), seed=stream(0, Stream.FRESH))
    assert still.evaluation.cells <= 5
    protocol = Protocol(5, pairs=("y,x:-6:6:10",), mixing_threshold=0.3)
    moving = assess(uniform, config, protocol, seed=stream(0, Stream.FRESH))
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
    for wrong in ({"trajectories": 0}, {"k": 0}, {"horizons": (5, 0)}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            Protocol(**wrong)


def test_nothing_is_uniform_over_an_unbounded_box() -> None:
    from gymnasium.spaces import Box

    with pytest.raises(EnvironmentFault, match="unbounded"):
        UniformActor.over(Box(-np.inf, np.inf, (2,)))

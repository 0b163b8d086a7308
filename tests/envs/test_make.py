"""One factory for ids, classes and functions; each size made once; nothing of the past is left after a reset."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mepol.envs.domain import Domain
from mepol.envs.gridworld import GridWorldVectorEnv, gridworld
from mepol.envs.make import Environments, Unending, make_env, make_single
from mepol.errors import EnvironmentFault
from mepol.evaluation import Evaluation, Protocol, assess


class Line(gymnasium.Env):
    """A float64 line whose class breaks Gymnasium's advice: unbounded, and float32 observations."""

    observation_space = Box(-np.inf, np.inf, (1,), np.float64)
    action_space = Box(-2.0, 3.0, (1,), np.float32)
    closed = 0

    def __init__(self, start: float = 0.0, render_mode: str | None = None) -> None:
        self.start, self.render_mode = start, render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.array([self.start], dtype=np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        return np.array([self.start], dtype=np.float32), 0.0, True, True, {}

    def close(self) -> None:
        Line.closed += 1


def lines(n: int, start: float = 0.0) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: Line(start)] * n)


@pytest.mark.parametrize("what", [Line, lambda **kw: Line(**kw), lines, lambda n, start: lines(n, start)])
def test_classes_factories_and_functions_of_n_make_a_batch(what: Any) -> None:
    env = make_env(what, 3, kwargs={"start": 4.0})
    assert env.num_envs == 3
    assert env.reset(seed=[1, 2, 3])[0].tolist() == [[4.0]] * 3
    env.close()


def test_a_vector_class_is_given_the_number() -> None:
    env = make_env(GridWorldVectorEnv, 5)
    assert isinstance(env, GridWorldVectorEnv)
    assert env.num_envs == 5


@pytest.mark.parametrize("what", [Line, lambda: Line()])
def test_ends_of_single_environments_are_hidden_or_not(what: Any) -> None:
    for ignore in (True, False):
        env = make_env(what, 2, ignore_termination=ignore, autoreset=AutoresetMode.DISABLED)
        env.reset(seed=0)
        assert env.step(np.zeros((2, 1), np.float32))[2].tolist() == [not ignore] * 2
        assert isinstance(env.envs[0], Unending) is ignore


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda: 7, r"takes no argument, so it must return a gymnasium.Env, not a int"),
        (lambda: lines(2), r"must return a gymnasium.Env, not a SyncVectorEnv; a function .* takes their number n"),
        (lambda n: Line(), r"is a function of n: it must return a VectorEnv, not a Line"),
        (lambda n: lines(n + 1), r"returned 3 environments, not the 2 it was asked for"),
        (lambda n, wheels: lines(n), r"construction as .* raised TypeError: .*wheels"),
        (7, r"cannot make an environment of a int: give a Gymnasium id"),
        ("mepol/Nowhere-v0", r"no environment is called 'mepol/Nowhere-v0'"),
    ],
)
def test_what_makes_no_environment_is_one_sentence(what: Any, message: str) -> None:
    with pytest.raises(EnvironmentFault, match=message):
        make_env(what, 2)


def test_gymnasiums_advice_to_authors_does_not_reach_the_user() -> None:
    gymnasium.register("mepol-tests/Line-v0", entry_point=Line)
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for make in (lambda: make_env("mepol-tests/Line-v0", 2), lambda: make_single("mepol-tests/Line-v0")):
                env = make()
                env.reset(seed=0)
                env.step(env.action_space.sample())
                env.close()
        assert [str(w.message) for w in said] == []
        with warnings.catch_warnings(record=True) as said:  # and there would have been some
            warnings.simplefilter("always")
            gymnasium.make("mepol-tests/Line-v0").reset(seed=0)
        assert said
    finally:
        del gymnasium.registry["mepol-tests/Line-v0"]


def test_a_single_environment_draws_or_says_that_it_cannot() -> None:
    for what in ("mepol/GridWorld-v0", gridworld):
        env = make_single(what, render_mode="rgb_array")
        env.reset(seed=0)
        assert env.render().shape == (480, 480, 3)
    assert make_single(Line, {"start": 2.0}, "rgb_array").render_mode == "rgb_array"
    with pytest.raises(EnvironmentFault, match="does not draw 'rgb_array': give it a parameter render_mode"):
        make_single(lambda: Line(), render_mode="rgb_array")
    with pytest.raises(EnvironmentFault, match="makes batches"):
        make_single(lines)
    with pytest.raises(EnvironmentFault, match="no environment is called 'mepol/Nowhere-v0'"):
        make_single("mepol/Nowhere-v0", render_mode="rgb_array")


def test_each_size_is_made_once_and_all_are_closed_at_the_end() -> None:
    made: list[int] = []

    def counted(n: int) -> SyncVectorEnv:
        made.append(n)
        return lines(n)

    Line.closed = 0
    with Environments(counted) as environments:
        assert environments.of(2) is environments.of(2) is not environments.of(3)
        assert environments.of(3).num_envs == 3
        assert Line.closed == 0
    assert made == [2, 3]
    assert Line.closed == 5


class Stuck(Line):
    def close(self) -> None:
        super().close()
        raise OSError("door")


def test_a_fault_in_closing_one_leaves_none_open_and_is_named() -> None:
    def use(then: Callable[[], None]) -> None:
        with Environments(lambda n: SyncVectorEnv([Stuck if n == 2 else Line] * n)) as environments:
            environments.of(1)
            environments.of(2)
            then()

    def fail() -> None:
        raise KeyError("lost")

    for then, error, message in ((int, EnvironmentFault, "close raised OSError: door"), (fail, KeyError, "lost")):
        Line.closed = 0
        with pytest.raises(error, match=message):
            use(then)
        assert Line.closed == 2  # the first of the two, which raised, and the single one


@pytest.mark.parametrize("env_id", ["mepol/GridWorld-v0", "mepol/MountainCar-v0", "mepol/Ant-v0", "Pendulum-v1"])
def test_measuring_twice_in_one_environment_equals_measuring_in_two(env_id: str, make_policy: Callable) -> None:
    def measured(environments: Environments, seed: int) -> Evaluation:
        env = environments.of(3)
        domain = Domain.of(env, name=env_id, features="0,1", heatmap_low=(-6.0, -6.0), heatmap_high=(6.0, 6.0))
        policy = make_policy(domain.state_dim, domain.action_dim)
        protocol = Protocol(horizon=30, k=3, eps=1e-9, trajectories=3, workers=1)
        return assess(policy, env, domain, protocol, seed=np.random.SeedSequence(seed)).evaluation

    with Environments(env_id, threads=1) as shared:
        again = [measured(shared, seed) for seed in (1, 2, 1)]
    fresh = []
    for seed in (1, 2):
        with Environments(env_id, threads=1) as own:
            fresh.append(measured(own, seed))
    np.testing.assert_array_equal(again[1].visits, fresh[1].visits)
    assert again[0].index == again[2].index == fresh[0].index != fresh[1].index == again[1].index


class Fragile(Line):
    """Ends at its second step, and breaks when it is stepped further."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        self.left = 2
        return super().reset(seed=seed)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.left -= 1
        if self.left < 0:
            raise IndexError("no card")
        return np.zeros(1), 0.0, self.left == 0, False, {}


def test_a_fault_past_the_end_of_an_episode_is_told_as_such() -> None:
    env = make_env(Fragile, 1)
    for _ in range(2):  # a reset makes it forget
        env.reset(seed=[0])
        env.step(np.zeros((1, 1)))
        env.step(np.zeros((1, 1)))
        with pytest.raises(EnvironmentFault, match=r"raised IndexError: no card.*past the end of an episode: --no-ig"):
            env.step(np.zeros((1, 1)))
    early = make_env(Fragile, 1)
    early.reset(seed=[0])
    early.envs[0].unwrapped.left = 0
    with pytest.raises(IndexError, match=r"^no card$"):  # no end was passed
        early.step(np.zeros((1, 1)))


def test_a_class_without_spaces_is_one_sentence() -> None:
    class Bare(gymnasium.Env):
        action_space = Line.action_space

    with pytest.raises(EnvironmentFault, match=r"Bare' has no observation_space: give it one of gymnasium\.spaces"):
        make_env(Bare, 2)
    Bare.observation_space, Bare.action_space = Line.observation_space, None
    with pytest.raises(EnvironmentFault, match="Bare' has no action_space"):
        make_env(Bare, 2)

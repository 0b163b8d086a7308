"""Batches from any vector environment: one seed fixes them, ends are cut or ignored, faults are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Text
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mepol import Batch, GaussianPolicy, collect
from mepol.envs.make import Unending, make_env
from mepol.errors import EnvironmentFault


class Counter(gymnasium.Env):
    """Counts its steps in coordinate 0; coordinate 1 is its start; ends after `life` steps, or never."""

    action_space = Box(-1.0, 1.0, (1,), np.float32)
    observation_space = Box(-np.inf, np.inf, (2,), np.float64)

    def __init__(self, life: int = 10**9, truncates: bool = False, nan_at: int = -1, shape: tuple = (2,)) -> None:
        self.life, self.truncates, self.nan_at, self.shape = life, truncates, nan_at, shape

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.state = np.array([0.0, self.np_random.uniform()])
        return self.state.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.state[0] += 1
        over = self.state[0] == self.life
        obs = np.full(2, np.nan) if self.state[0] == self.nan_at else self.state.copy()
        return obs, 0.0, over and not self.truncates, over and self.truncates, {}


@pytest.fixture
def actor(make_policy: Callable) -> GaussianPolicy:
    return make_policy(2, 1)


def vector(lives: list[int], mode: AutoresetMode, **options: Any) -> SyncVectorEnv:
    makers = [lambda life=life: Counter(life, **options) for life in lives]
    return SyncVectorEnv(makers, autoreset_mode=mode)


def roll(actor: GaussianPolicy, env: Any, horizon: int = 6, seed: int = 0) -> Batch:
    return collect(actor, env, horizon, seed=np.random.SeedSequence(seed))


def same(a: Batch, b: Batch) -> bool:
    return all(np.array_equal(getattr(a, n), getattr(b, n)) for n in ("states", "actions", "lengths"))


@pytest.mark.parametrize("env_id", ["mepol/GridWorld-v0", "mepol/MountainCar-v0", "Pendulum-v1"])
def test_one_seed_fixes_a_batch(make_policy: Callable, env_id: str) -> None:
    env = make_env(env_id, 3)
    policy = make_policy(env.single_observation_space.shape[0], env.single_action_space.shape[0])
    first = roll(policy, env, 40, seed=5)
    assert same(first, roll(policy, env, 40, seed=5))  # the same object again
    assert same(first, roll(policy, make_env(env_id, 3), 40, seed=5))  # a fresh one
    other = roll(policy, env, 40, seed=6)
    assert not np.array_equal(first.states[:, 0], other.states[:, 0])
    assert not np.array_equal(first.actions, other.actions)
    assert len(np.unique(first.states[:, 0], axis=0)) == 3  # sub-environments start apart


@pytest.mark.parametrize("env_id", ["mepol/GridWorld-v0", "mepol/MountainCar-v0", "Pendulum-v1"])
def test_a_start_does_not_depend_on_how_many_neighbours_it_has(make_policy: Callable, env_id: str) -> None:
    few, many = make_env(env_id, 2), make_env(env_id, 7)
    policy = make_policy(few.single_observation_space.shape[0], few.single_action_space.shape[0])
    a, b = roll(policy, few, 1), roll(policy, many, 1)
    np.testing.assert_array_equal(a.states[:, 0], b.states[:2, 0])


def test_states_actions_and_steps_belong_together(make_policy: Callable) -> None:
    batch = roll(make_policy(2, 2), make_env("mepol/GridWorld-v0", 4), 50)
    assert (batch.states.shape, batch.actions.shape, batch.lengths.tolist()) == ((4, 51, 2), (4, 50, 2), [50] * 4)
    assert (batch.states.dtype, batch.actions.dtype) == (np.float64, np.float32)
    moved = np.diff(batch.states, axis=1)
    clipped = np.clip(batch.actions.astype(float), -np.float64(np.float32(0.2)), np.float64(np.float32(0.2)))
    stayed = (moved == 0).all(axis=2)
    np.testing.assert_allclose(moved[~stayed], clipped[~stayed], atol=1e-12)
    assert not stayed.all()


def test_pendulum_goes_past_its_own_time_limit(make_policy: Callable) -> None:
    batch = roll(make_policy(3, 1), make_env("Pendulum-v1", 2), 250)  # its TimeLimit is 200
    assert batch.lengths.tolist() == [250, 250]
    np.testing.assert_allclose(np.hypot(batch.states[..., 0], batch.states[..., 1]), 1.0, atol=1e-5)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("truncates", [False, True])
def test_an_environment_that_resets_itself_is_cut_at_its_end(
    actor: GaussianPolicy, mode: AutoresetMode, truncates: bool
) -> None:
    batch = roll(actor, vector([2, 99, 6, 4], mode, truncates=truncates), horizon=6)
    assert batch.lengths.tolist() == [2, 6, 6, 4]
    for states, length in zip(batch.states, batch.lengths, strict=True):
        np.testing.assert_array_equal(states[: length + 1, 0], np.arange(length + 1))  # to the terminal state itself
        assert len(set(states[: length + 1, 1].tolist())) == 1  # all of one life
    assert batch.size == 18


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_sampling_stops_when_all_have_ended(actor: GaussianPolicy, mode: AutoresetMode) -> None:
    batch = roll(actor, vector([1, 2], mode), horizon=50)
    assert batch.lengths.tolist() == [1, 2]
    assert batch.states.shape == (2, 51, 2)


def test_an_unending_environment_goes_on_through_its_end(actor: GaussianPolicy) -> None:
    env = SyncVectorEnv([lambda: Unending(Counter(2)), lambda: Unending(Counter(3, truncates=True))])
    batch = roll(actor, env, horizon=6)
    assert batch.lengths.tolist() == [6, 6]
    np.testing.assert_array_equal(batch.states[:, :, 0], np.tile(np.arange(7), (2, 1)))


def test_make_env_ignores_termination_or_not(make_policy: Callable) -> None:
    gymnasium.register("mepol-tests/Counter-v0", entry_point=lambda: Counter(3))
    try:
        for ignore, lengths in ((True, [6, 6]), (False, [3, 3])):
            env = make_env("mepol-tests/Counter-v0", 2, ignore_termination=ignore)
            assert roll(make_policy(2, 1), env, 6).lengths.tolist() == lengths
    finally:
        del gymnasium.registry["mepol-tests/Counter-v0"]


def test_a_nan_is_traced_to_its_environment_and_step(actor: GaussianPolicy) -> None:
    env = SyncVectorEnv([Counter, lambda: Counter(nan_at=4), Counter])
    with pytest.raises(EnvironmentFault, match="environment 1 returned a NaN or infinite observation at step 3"):
        roll(actor, env)


class Broken:
    """The least that looks like a vector environment, with observations of any kind."""

    num_envs = 2
    metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012
    single_action_space: Any = Counter.action_space
    single_observation_space: Any = Counter.observation_space

    def __init__(self, obs: object) -> None:
        self.obs = obs

    def reset(self, **_: object) -> tuple[object, dict]:
        return self.obs, {}


class GoesOn(Broken):
    """Reports an end at its second step, and goes on from there."""

    def __init__(self) -> None:
        super().__init__(np.zeros((2, 2)))

    def step(self, actions: np.ndarray) -> tuple:
        self.obs = self.obs + 1.0
        over = self.obs[:, 0] == 2
        return self.obs, np.zeros(2), over, over, {}


def test_an_environment_that_does_not_reset_itself_goes_on_from_its_end(actor: GaussianPolicy) -> None:
    batch = roll(actor, GoesOn(), horizon=6)
    assert batch.lengths.tolist() == [6, 6]
    np.testing.assert_array_equal(batch.states[0, :, 0], np.arange(7))


@pytest.mark.parametrize("obs", [np.zeros((2, 3)), np.zeros((3, 2)), np.zeros(2), "text", np.full((2, 2), "a")])
def test_observations_of_another_shape_or_kind_are_refused(actor: GaussianPolicy, obs: object) -> None:
    with pytest.raises(EnvironmentFault, match=r"not \(2, 2\) real numbers"):
        roll(actor, Broken(obs))


@pytest.mark.parametrize("space", [Text(3), Box(-1, 1, (2, 2)), Dict({"a": Box(-1, 1, (2,))}), Box(-1, 1, ())])
@pytest.mark.parametrize("which", ["action", "observation"])
def test_spaces_that_are_no_flat_box_are_refused(actor: GaussianPolicy, space: Any, which: str) -> None:
    env = Broken(np.zeros((2, 2)))
    setattr(env, f"single_{which}_space", space)
    with pytest.raises(EnvironmentFault, match=rf"the {which} space is .*one-dimensional Box"):
        roll(actor, env)

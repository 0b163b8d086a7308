"""MountainCar: Gymnasium's own dynamics left of the wall, and the wall."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from mepol.envs.mountain_car import ENTROPY_CEILING, MountainCarVectorEnv


def at(position: float, velocity: float) -> MountainCarVectorEnv:
    env = MountainCarVectorEnv(1)
    env.reset(seed=0)
    env._state = np.array([[position, velocity]])
    return env


@given(position=st.floats(-1.2, 0.44), velocity=st.floats(-0.07, 0.07), force=st.floats(-2, 2))
def test_one_step_is_gymnasium_s(position: float, velocity: float, force: float) -> None:
    theirs = gymnasium.make("MountainCarContinuous-v0").unwrapped
    theirs.reset(seed=0)
    theirs.state = np.array([position, velocity])
    expected, *_ = theirs.step(np.array([force]))
    ours, *_ = at(position, velocity).step(np.array([[force]]))
    if expected[0] < 0.45 - 1e-6:
        np.testing.assert_allclose(ours[0], expected, rtol=0, atol=6e-8)  # they round to float32


def test_a_whole_trajectory_is_gymnasium_s_step_by_step() -> None:
    theirs = gymnasium.make("MountainCarContinuous-v0").unwrapped
    rng = np.random.default_rng(0)
    ours = MountainCarVectorEnv(1)
    states, _ = ours.reset(seed=4)
    theirs.reset(seed=0)
    walls = 0
    for _ in range(2000):
        theirs.state = states[0].copy()  # in float64: theirs would carry its own rounding on
        force = math.copysign(1.0, states[0, 1]) * rng.uniform(-0.5, 1.5)
        expected, *_ = theirs.step(np.array([force]))
        states, *_ = ours.step(np.array([[force]]))
        if expected[0] >= 0.45:
            walls += 1
            np.testing.assert_array_equal(states, [[0.45, 0.0]])
        else:
            np.testing.assert_allclose(states[0], expected, rtol=0, atol=6e-8)
    assert walls > 3


def test_equations_in_float64() -> None:
    states, *_ = at(-0.7, 0.013).step(np.array([[0.4]]))
    velocity = 0.013 + 0.4 * 0.0015 - 0.0025 * math.cos(3 * -0.7)
    np.testing.assert_allclose(states[0], [-0.7 + velocity, velocity], rtol=1e-14)


def test_the_wall_takes_position_and_velocity_and_lets_go() -> None:
    env = at(0.44, 0.07)
    states, _, terminated, truncated, _ = env.step(np.array([[1.0]]))
    np.testing.assert_array_equal(states, [[0.45, 0.0]])
    assert not terminated[0]
    assert not truncated[0]
    states, *_ = env.step(np.array([[1.0]]))  # gravity is stronger than the wall-side push uphill
    assert states[0, 0] <= 0.45
    for _ in range(5):
        states, *_ = env.step(np.array([[-1.0]]))
    assert states[0, 0] < 0.45
    assert states[0, 1] < 0


def test_the_left_end_stops_the_car() -> None:
    states, *_ = at(-1.19, -0.07).step(np.array([[-1.0]]))
    np.testing.assert_array_equal(states, [[-1.2, 0.0]])


@given(seed=st.integers(0, 10_000), scale=st.floats(0.1, 10))
def test_states_stay_in_their_box(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    env = MountainCarVectorEnv(5)
    states, _ = env.reset(seed=seed)
    for _ in range(80):
        force = scale * np.sign(states[:, 1:] + 1e-9) + rng.standard_normal((5, 1))
        states, *_ = env.step(force)
        assert env.observation_space.contains(states)


def test_starts() -> None:
    states, _ = MountainCarVectorEnv(4000).reset(seed=0)
    assert states[:, 0].min() >= -0.6
    assert states[:, 0].max() <= -0.4
    assert states[:, 0].mean() == pytest.approx(-0.5, abs=0.004)
    assert not states[:, 1].any()


def test_ceiling() -> None:
    assert math.log(1.65 * 0.14) == pytest.approx(ENTROPY_CEILING, abs=1e-12)
    assert pytest.approx(-1.465, abs=5e-4) == ENTROPY_CEILING


def test_a_batch_of_n_is_n_singles() -> None:
    rng = np.random.default_rng(0)
    batch = MountainCarVectorEnv(3)
    singles = [gymnasium.make("mepol/MountainCar-v0") for _ in range(3)]
    states, _ = batch.reset(seed=[5, 9, 2])
    np.testing.assert_array_equal(states, [env.reset(seed=s)[0] for env, s in zip(singles, [5, 9, 2], strict=True)])
    for _ in range(200):
        actions = rng.uniform(-1, 1, (3, 1)).astype(np.float32)
        states, *_ = batch.step(actions)
        alone = [env.step(action)[0] for env, action in zip(singles, actions, strict=True)]
        np.testing.assert_array_equal(states, alone)


def test_gymnasium_accepts_it() -> None:
    check_env(gymnasium.make("mepol/MountainCar-v0", render_mode="rgb_array").unwrapped)


def test_make_vec_gives_the_native_batch() -> None:
    env = gymnasium.make_vec("mepol/MountainCar-v0", num_envs=4)
    assert isinstance(env.unwrapped, MountainCarVectorEnv)
    assert env.reset(seed=0)[0].shape == (4, 2)


def test_the_picture_follows_the_car() -> None:
    env = gymnasium.make("mepol/MountainCar-v0", render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    assert before.shape == (400, 600, 3)
    assert before.dtype == np.uint8
    for _ in range(20):
        env.step(np.array([1.0], dtype=np.float32))
    assert (env.render() != before).any()

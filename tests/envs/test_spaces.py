"""Any space: flattened with names, and actions in units of the action space."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from hypothesis import given
from hypothesis import strategies as st

from mepol.envs.finite import Leaf, column_mask, places_in
from mepol.envs.make import make_env, make_single
from mepol.envs.spaces import FlatObservations, UnitActions, fitted
from mepol.errors import EnvironmentFault

NESTED = Dict(
    {
        "goal": Box(-2.0, 2.0, (2,), np.float64),
        "room": Discrete(3, start=1),
        "pair": Tuple((MultiBinary(2), MultiDiscrete([4, 5]))),
        "map": Box(0, 9, (2, 2), np.int64),
        "speed": Box(0.0, np.inf, (1,), np.float32),
    }
)


class World(gymnasium.Env[Any, Any]):
    """Shows samples of its space, and remembers the actions that it was given."""

    def __init__(self, observations: Any = NESTED, actions: Any = None) -> None:
        self.observation_space, self.action_space = observations, actions or Box(0.0, 100.0, (2,), np.float32)
        self.seen: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.shown = self.observation_space.sample()
        return self.shown, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.seen.append(action)
        return self.shown, 0.0, False, False, {}


def test_nested_observations_are_one_row_with_names() -> None:
    env = FlatObservations(World())
    obs, _ = env.reset(seed=3)
    shown = env.unwrapped.shown
    assert env.feature_names == (
        *("goal.0", "goal.1", "map.0", "map.1", "map.2", "map.3", "pair.0.0", "pair.0.1", "pair.1.0", "pair.1.1"),
        *("room.0", "room.1", "room.2", "speed"),
    )
    truth = [
        *shown["goal"],
        *shown["map"].ravel(),
        *shown["pair"][0],
        *shown["pair"][1],
        *np.eye(3)[shown["room"] - 1],
        *shown["speed"],
    ]
    np.testing.assert_array_equal(obs, np.array(truth, dtype=np.float64))
    assert obs.dtype == np.float64
    assert env.observation_space.contains(obs)
    np.testing.assert_array_equal(env.observation_space.high[:2], [2.0, 2.0])
    assert env.observation_space.high[-1] == np.inf


@given(st.lists(st.floats(-5, 5, width=32), min_size=2, max_size=2))
def test_actions_stretch_over_the_box_and_never_leave_it(action: list[float]) -> None:
    env = UnitActions(World(), Box(0.0, 100.0, (2,), np.float32))
    env.reset(seed=0)
    env.step(np.array(action, dtype=np.float32))
    truth = 50 * (1 + np.clip(action, -1, 1))
    np.testing.assert_allclose(env.unwrapped.seen[-1], truth, rtol=1e-6)


def test_unbounded_actions_are_handed_on_as_they_are() -> None:
    box = Box(-np.inf, np.inf, (2,), np.float32)
    env = fitted(World(actions=box))
    assert env.action_space == box
    assert fitted(World(), unit_actions=False).action_space == World().action_space


def test_a_batch_of_them_is_made_by_the_factory() -> None:
    env = make_env(World, 3)
    states, _ = env.reset(seed=[1, 2, 3])
    assert states.shape == (3, 14)
    assert env.single_action_space == Box(-1.0, 1.0, (2,), np.float32)
    env.step(np.full((3, 2), 7.0, dtype=np.float32))  # far beyond: clipped, or the world would refuse it
    env.close()


def test_dictionaries_of_a_real_environment() -> None:
    env = make_env("PointMaze_UMaze-v3", 2)
    states, _ = env.reset(seed=[1, 2])
    assert states.shape == (2, 8)
    assert env.envs[0].get_wrapper_attr("feature_names")[:3] == ("achieved_goal.0", "achieved_goal.1", "desired_goal.0")
    env.close()


def test_the_papers_domains_keep_their_units() -> None:
    assert make_env("mepol/GridWorld-v0", 2).single_action_space == Box(-0.2, 0.2, (2,), np.float32)
    assert make_single("mepol/GridWorld-v0").action_space == Box(-0.2, 0.2, (2,), np.float32)
    assert make_single("Pendulum-v1").action_space == Box(-1.0, 1.0, (1,), np.float32)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Box(0, 255, (96, 96, 3), np.uint8), r"is a picture, \(96, 96, 3\) uint8"),
        (Dict({"camera": Box(0, 255, (8, 8, 3), np.uint8)}), "the observation camera is a picture"),
        (Text(5), "the observation space is Text"),
        (Box(0.0, 1.0, (64, 64, 3), np.float32), r"float32: wrap the environment to give a state, or bytes \(uint8\)"),
        (Dict({}), "has no coordinate"),
    ],
)
def test_what_cannot_be_a_state_is_one_sentence(space: Any, message: str) -> None:
    with pytest.raises(EnvironmentFault, match=message):
        fitted(World(space))


# --- parts that are not as their space says -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        ({"pos": np.zeros(2)}, "the observation's part 'in.room' is missing, or not of its space .KeyError: 'in'"),
        ({"pos": np.zeros(3), "in": {"speed": [0.0], "room": 1}}, "part 'pos' has 3 numbers, and its space 2"),
        ({"pos": np.zeros(2), "in": {"speed": [0.0], "room": 4}}, "part 'in.room' .*4 is not from 1 to 3"),
        ({"pos": ["a", "b"], "in": {"speed": [0.0], "room": 1}}, "part 'pos' is missing, or not of its space"),
    ],
)
def test_a_part_that_is_not_of_its_space_is_named(shown: Any, message: str) -> None:
    inner = Dict({"room": Discrete(3, start=1), "speed": Box(-1.0, 1.0, (1,))})
    env = FlatObservations(World(Dict({"pos": Box(-5.0, 5.0, (2,)), "in": inner})))
    env.reset(seed=0)
    env.flat({"pos": np.zeros(2), "in": {"speed": [0.5], "room": 3}})
    with pytest.raises(EnvironmentFault, match=message):
        env.flat(shown)


def test_truth_values_are_numbers_and_every_part_says_whether_it_is_finite() -> None:
    env = fitted(World(Box(0, 1, (3,), np.bool_)))
    obs, _ = env.reset(seed=2)
    np.testing.assert_array_equal(obs, env.unwrapped.shown.astype(float))
    assert env.observation_space == Box(0.0, 1.0, (3,), np.float64)
    assert env.get_wrapper_attr("observation_leaves") == (Leaf(1, 2),) * 3
    leaves = FlatObservations(World()).observation_leaves
    real, number, choice = Leaf(2, 0), Leaf(1, 10), Leaf(3, 3)
    pair = (Leaf(1, 2), Leaf(1, 2), Leaf(1, 4), Leaf(1, 5))
    assert leaves == (real, *[number] * 4, *pair, choice, Leaf(1, 0))
    assert places_in(leaves) is None
    assert places_in((choice, *pair)) == 3 * 2 * 2 * 4 * 5
    assert places_in((Leaf(1, 101), Leaf(1, 100))) is None  # more than are counted
    marks = column_mask((real, choice, number), [False, True, False])
    assert marks.tolist() == [False, False, True, True, True, False]


# --- actions of any shape -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 1), (), (1, 2, 2)])
@pytest.mark.parametrize("unit", [True, False])
def test_actions_of_any_shape_are_a_row(shape: tuple[int, ...], unit: bool) -> None:
    env = fitted(World(actions=Box(-3.0, 5.0, shape, np.float32)), unit_actions=unit)
    size = int(np.prod(shape))
    env.reset(seed=0)
    env.step(np.full(size, 9.0, dtype=np.float32))  # the world refuses what is not of its space
    np.testing.assert_array_equal(env.unwrapped.seen[-1], np.full(shape, 5.0))
    env.step(np.zeros(size, dtype=np.float32))
    np.testing.assert_array_equal(env.unwrapped.seen[-1], np.full(shape, 1.0 if unit else 0.0))
    assert env.action_space.shape == (size,)


@pytest.mark.parametrize("unit", [True, False])
def test_actions_are_clipped_at_the_ends_that_they_have(unit: bool) -> None:
    box = Box(np.array([0.0, -np.inf, -1.0]), np.array([np.inf, 2.0, 1.0]), dtype=np.float64)
    env = fitted(World(actions=box), unit_actions=unit)
    assert env.action_space == box
    env.reset(seed=0)
    for action in ([-7.0, 7.0, 7.0], [7.0, -7.0, -7.0]):
        env.step(np.array(action, dtype=np.float32))
    np.testing.assert_array_equal(env.unwrapped.seen, [[0.0, 2.0, 1.0], [7.0, -7.0, -1.0]])

"""Discrete actions of any kind are whole numbers from 0 to the learners, and what they were to the environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from mepol import collect
from mepol.algorithm import CategoricalPolicy
from mepol.envs.choices import choices_of, counted, space_of
from mepol.envs.domain import Domain
from mepol.envs.make import make_env, make_single
from mepol.errors import EnvironmentFault, RunError

SPACES = [
    (Discrete(3), (3,), [2], 2),
    (Discrete(4, start=-1), (4,), [0], -1),
    (MultiDiscrete([3, 2]), (3, 2), [2, 1], [2, 1]),
    (MultiDiscrete([3, 2], dtype=np.int32, start=[-1, 4]), (3, 2), [2, 0], [1, 4]),
    (MultiDiscrete([[2, 3], [4, 5]]), (2, 3, 4, 5), [1, 2, 3, 4], [[1, 2], [3, 4]]),
    (MultiBinary(3), (2, 2, 2), [0, 1, 1], [0, 1, 1]),
    (MultiBinary((2, 2)), (2, 2, 2, 2), [1, 0, 0, 1], [[1, 0], [0, 1]]),
]
IDS = [str(space) for space, *_ in SPACES]


class Listener(gymnasium.Env[Any, Any]):
    """Takes what its space holds and nothing else, and remembers it."""

    observation_space = Box(-1.0, 1.0, (2,), np.float64)

    def __init__(self, space: Any) -> None:
        self.action_space, self.heard = space, []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), (self.action_space, action)
        self.heard.append(action)
        return self.np_random.uniform(-1, 1, 2), 0.0, False, False, {}


class Native(VectorEnv):
    """A batch of its own with a discrete space."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012
    single_observation_space = Box(-1.0, 1.0, (2,), np.float64)

    def __init__(self, n: int, space: Any) -> None:
        self.num_envs, self.single_action_space, self.heard = n, space, []
        self.observation_space = batch_space(self.single_observation_space, n)
        self.action_space = batch_space(space, n)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros((self.num_envs, 2)), {}

    def step(self, actions: Any) -> Any:
        assert self.action_space.contains(actions), actions
        self.heard.append(actions)
        never = np.zeros(self.num_envs, dtype=bool)
        return np.zeros((self.num_envs, 2)), np.zeros(self.num_envs), never, never, {}


@pytest.mark.parametrize(("space", "choices", "given", "truth"), SPACES, ids=IDS)
def test_the_environment_hears_what_its_own_space_holds(space: Any, choices: Any, given: Any, truth: Any) -> None:
    assert choices_of(space) == choices
    row = np.array(given, dtype=np.float32)
    env = make_single(lambda: Listener(space))
    assert env.action_space == space_of(choices)
    env.reset(seed=0)
    env.step(row)
    np.testing.assert_array_equal(env.unwrapped.heard[0], truth)
    for batch in (make_env(lambda: Listener(space), 3), make_env(lambda n: Native(n, space), 3)):
        assert batch.single_action_space == space_of(choices)
        batch.reset(seed=[1, 2, 3])
        batch.step(np.tile(row, (3, 1)))
        heard = (
            batch.unwrapped.heard[0]
            if isinstance(batch.unwrapped, Native)
            else [e.unwrapped.heard[0] for e in batch.unwrapped.envs]
        )
        np.testing.assert_array_equal(heard, [truth] * 3)


@pytest.mark.parametrize(("space", "choices", "given", "truth"), SPACES, ids=IDS)
def test_a_batch_is_collected_and_every_choice_is_taken(space: Any, choices: Any, given: Any, truth: Any) -> None:
    policy = CategoricalPolicy(2, choices, (4,))
    policy.level()
    env = Native(3, space)  # not made by us: collect counts its actions itself
    batch = collect(policy, env, 60, seed=0)
    assert batch.actions.shape == (3, 60, len(choices))
    for i, n in enumerate(choices):
        assert set(np.unique(batch.actions[:, :, i])) == set(range(n))


@pytest.mark.parametrize("action", [[3.0], [-1.0], [0.5], [np.inf]])
def test_what_is_no_choice_is_refused_in_one_sentence(action: list[float]) -> None:
    env = counted(Native(1, Discrete(3)))
    with pytest.raises(
        EnvironmentFault, match=r"for column 0 of a discrete action, which is a whole number from 0 to 2"
    ):
        env.step(np.array([action]))
    with pytest.raises(EnvironmentFault, match="an action has 1 columns"):
        env.step(np.zeros((1, 2)))


def test_a_function_of_one_choice_may_leave_the_column_out() -> None:
    from mepol.sampling.actors import as_actor

    env = Native(4, Discrete(3))
    collect(as_actor(lambda obs: np.full(len(obs), 2)), env, 2, seed=0)
    assert env.heard[0].tolist() == [2, 2, 2, 2]


def test_more_choices_than_a_policy_can_have_are_refused() -> None:
    with pytest.raises(EnvironmentFault, match="has 1000000000 choices, and mepol takes from 1 to 65536"):
        make_env(lambda: Listener(Discrete(10**9)), 1)


# --- what is stored of them -------------------------------------------------------------------------------------------


def domain_of(space: Any) -> Domain:
    return Domain.of(make_env(lambda: Listener(space), 1), name="here")


def test_a_domain_keeps_the_choices() -> None:
    domain = domain_of(MultiDiscrete([3, 2], start=[5, 0]))
    stored = Domain.from_json(domain.to_json())
    assert stored.choices == domain.choices == (3, 2)
    assert stored.action_space == domain.action_space == MultiDiscrete([3, 2])
    assert stored.action_dim == 2
    assert stored.to_json() == domain.to_json()
    stored.require_fit(make_env(lambda: Listener(MultiDiscrete([3, 2])), 1))
    with pytest.raises(EnvironmentFault, match=r"discrete \(3, 3\) actions, and here had discrete \(3, 2\) ones"):
        stored.require_fit(make_env(lambda: Listener(MultiDiscrete([3, 3])), 1))
    with pytest.raises(EnvironmentFault, match="continuous actions"):
        stored.require_fit(make_env(lambda: Listener(Box(-1, 1, (2,))), 1))


@pytest.mark.parametrize(
    "actions",
    [{"choices": []}, {"choices": [0]}, {"choices": [2.0]}, {"choices": [True]}, {"choices": 3}, {"choices": [65537]},
     {"choices": [2] * 40_000}, {"choices": [2], "low": [0]}],
)  # fmt: skip
def test_impossible_choices_in_a_file_are_refused(actions: Any) -> None:
    content = json.loads(domain_of(Discrete(2)).to_json())
    with pytest.raises(RunError, match=r"is not a domain: its (choices|actions)"):
        Domain.from_json(json.dumps({**content, "actions": actions}))


# --- wrappers by name -------------------------------------------------------------------------------------------------

WRAPPERS = """
import gymnasium
from gymnasium.spaces import Box
class Double(gymnasium.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.observation_space = Box(2 * env.observation_space.low, 2 * env.observation_space.high)
    def observation(self, obs):
        return 2 * obs
class Offset(gymnasium.ObservationWrapper):
    def observation(self, obs):
        return obs + 0.25
class Broken(gymnasium.Wrapper):
    def __init__(self, env):
        raise ValueError("no")
def function(env):
    raise AssertionError("called")
"""


@pytest.fixture
def wrappers(tmp_path: Path) -> str:
    (tmp_path / "around.py").write_text(WRAPPERS)
    return str(tmp_path / "around.py")


def test_wrappers_go_around_the_innermost_first(wrappers: str) -> None:
    def start(*names: str) -> np.ndarray:
        env = make_env("MountainCar-v0", 2, wrappers=[f"{wrappers}:{name}" for name in names])
        return np.asarray(env.reset(seed=[3, 4])[0])

    plain = start()
    np.testing.assert_allclose(start("Double", "Offset"), 2 * plain + 0.25, rtol=1e-6)
    np.testing.assert_allclose(start("Offset", "Double"), 2 * (plain + 0.25), rtol=1e-6)
    single = make_single("MountainCar-v0", wrappers=[f"{wrappers}:Double"])
    np.testing.assert_allclose(single.reset(seed=3)[0], 2 * plain[0], rtol=1e-6)


def test_a_wrapped_domain_of_the_paper_keeps_its_raw_units(wrappers: str) -> None:
    env = make_env("mepol/GridWorld-v0", 2, wrappers=[f"{wrappers}:Double"])
    bare = make_env("mepol/GridWorld-v0", 2)
    assert env.single_action_space == bare.single_action_space
    np.testing.assert_allclose(env.single_observation_space.high, 2 * bare.single_observation_space.high)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("{}:function", "has no wrapper 'function': it must be a class of gymnasium.Wrapper"),
        ("{}:Missing", "has no wrapper 'Missing'"),
        ("os:system", "has no wrapper 'system'"),
        ("{}:Broken", "wrapping by .* raised ValueError: no"),
        ("Double", "needs a module: write MODULE:CLASS"),
    ],
)
def test_what_is_no_wrapper_is_refused(wrappers: str, name: str, words: str) -> None:
    with pytest.raises(EnvironmentFault, match=words):
        make_env("MountainCar-v0", 1, wrappers=[name.format(wrappers)])


def test_batches_of_ones_own_cannot_be_wrapped_by_name(wrappers: str) -> None:
    with pytest.raises(EnvironmentFault, match="makes batches"):
        make_env(lambda n: Native(n, Discrete(2)), 1, wrappers=[f"{wrappers}:Double"])

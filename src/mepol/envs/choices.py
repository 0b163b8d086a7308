"""Discrete actions as the learners want them: A columns of whole numbers from 0, whatever the space calls them.

    Discrete(n, start)     one column of 0 .. n-1
    MultiDiscrete(nvec)    a column per entry
    MultiBinary(shape)     a column of 0 and 1 per entry

`counted` shows any batch of environments in that way, `counted_single` one of them. The environment itself is given
what its own space holds: its type, its shape, its first number.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete, MultiBinary, MultiDiscrete, Space
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from mepol.errors import EnvironmentFault

MAX_CHOICES = 1 << 16
"""Logits of a policy: the sum of all n."""
Choices = tuple[int, ...]
"""(n_1, .., n_A): how many values each column of an action has."""


def choices_of(space: Space[Any]) -> Choices | None:
    """How many values each column of an action has, or None where actions are not discrete."""
    if isinstance(space, Discrete):
        found: Choices = (int(space.n),)
    elif isinstance(space, MultiDiscrete):
        found = tuple(int(n) for n in space.nvec.ravel())
    elif isinstance(space, MultiBinary):
        found = (2,) * math.prod(space.shape)
    else:
        return None
    if not 0 < sum(found) <= MAX_CHOICES:
        raise EnvironmentFault(
            f"the action space {space} has {sum(found)} choices, and mepol takes from 1 to {MAX_CHOICES}; "
            "wrap the environment to give fewer"
        )
    return found


def kind_of(choices: Choices | None) -> str:
    """What kind of actions a sentence calls these."""
    return "continuous" if choices is None else f"discrete {choices}"


def space_of(choices: Choices) -> MultiDiscrete:
    """The space of (A,) whole numbers from 0."""
    return MultiDiscrete(np.array(choices, dtype=np.int64))


class _Translation:
    """From (..., A) whole numbers from 0 to actions of `space`."""

    def __init__(self, space: Any, choices: Choices) -> None:
        self._most = np.array(choices)
        self._shape, self._dtype = tuple(space.shape or ()), space.dtype
        self._start = np.asarray(getattr(space, "start", 0), dtype=np.int64).ravel()

    def __call__(self, actions: NDArray[Any]) -> Any:
        """Actions of the space. A NaN stands in rows whose trajectory is over alone, and is the first choice."""
        given = np.asarray(actions, dtype=np.float64)
        given = np.where(np.isnan(given), 0.0, given)
        if given.shape[-1:] != self._most.shape:
            raise EnvironmentFault(f"an action has {len(self._most)} columns, and the policy gave {given.shape[-1:]}")
        bad = (np.floor(given) != given) | (given < 0) | (given >= self._most)
        if bad.any():
            where = tuple(np.argwhere(bad)[0])
            raise EnvironmentFault(
                f"the policy gave {given[where]:g} for column {where[-1]} of a discrete action, "
                f"which is a whole number from 0 to {self._most[where[-1]] - 1}"
            )
        own = (given.astype(np.int64) + self._start).astype(self._dtype).reshape((*given.shape[:-1], *self._shape))
        return own[()]  # a single Discrete action is a number, not an array


class CountedActions(VectorWrapper[Any, Any, Any, Any, Any]):
    """A batch whose actions are (M, A) whole numbers from 0."""

    def __init__(self, env: VectorEnv[Any, Any, Any], choices: Choices) -> None:
        super().__init__(env)
        self._translate = _Translation(env.single_action_space, choices)
        self.single_action_space = space_of(choices)
        self.action_space = batch_space(self.single_action_space, env.num_envs)

    def step(self, actions: Any) -> Any:
        """Step by the actions that these stand for."""
        return self.env.step(self._translate(actions))


class CountedSingle(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose actions are (A,) whole numbers from 0."""

    def __init__(self, env: gymnasium.Env[Any, Any], choices: Choices) -> None:
        super().__init__(env)
        self._translate = _Translation(env.action_space, choices)
        self.action_space = space_of(choices)

    def step(self, action: Any) -> Any:
        """Step by the action that this stands for."""
        return self.env.step(self._translate(action))


def counted(env: VectorEnv[Any, Any, Any]) -> VectorEnv[Any, Any, Any]:
    """`env` with (M, A) whole numbers from 0 for actions where its own are discrete; else, or if so already, itself."""
    choices = None if isinstance(env, CountedActions) else choices_of(env.single_action_space)
    return env if choices is None else CountedActions(env, choices)


def counted_single(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """The same of one environment."""
    choices = None if isinstance(env, CountedSingle) else choices_of(env.action_space)
    return env if choices is None else CountedSingle(env, choices)

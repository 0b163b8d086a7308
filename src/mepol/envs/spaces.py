"""Any environment as the learners want it: flat observations with names, actions in units of the action space.

    observations   Dict, Tuple and nested spaces, Discrete (one coordinate per value), MultiBinary, MultiDiscrete and
                   arrays are laid out in one row of real numbers; `names` says what each is (`achieved_goal.0`)
    actions        a bounded Box is reached from [-1, 1], and what lies beyond is clipped: a policy's spread of one
                   covers it whatever its units; unbounded ones are handed on as they are

Only single environments are fitted; a batch of one's own comes as it is. The paper's domains keep their raw units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from numpy.typing import NDArray

from mepol.errors import EnvironmentFault

Row = NDArray[np.float64]
MAX_ARRAY = 1000  # coordinates of one array: more are taken for a picture


class FlatObservations(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Observations of any space as one row (S,) of float64; `feature_names` says what each coordinate is."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        parts = list(_parts(env.observation_space, ""))
        own = getattr(env.unwrapped, "feature_names", None)
        names = [name for part in parts for name in part.names]
        self.feature_names = tuple(own) if own is not None and len(own) == len(names) else tuple(names)
        low, high = np.concatenate([p.low for p in parts]), np.concatenate([p.high for p in parts])
        self._take = [part.take for part in parts]
        self.observation_space = Box(low, high, dtype=np.float64)

    def reset(self, **options: Any) -> tuple[Row, dict[str, Any]]:
        """Start anew."""
        obs, info = self.env.reset(**options)
        return self.flat(obs), info

    def step(self, action: Any) -> tuple[Row, Any, bool, bool, dict[str, Any]]:
        """Step."""
        obs, *rest = self.env.step(action)
        return self.flat(obs), *rest  # type: ignore[return-value]

    def flat(self, obs: Any) -> Row:
        """(S,) an observation as a row."""
        return np.concatenate([take(obs) for take in self._take])


class UnitActions(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Actions in [-1, 1], clipped there and stretched over a bounded Box of actions."""

    def __init__(self, env: gymnasium.Env[Any, Any], box: Box) -> None:
        super().__init__(env)
        self.action_space = Box(-1.0, 1.0, box.shape, np.float32)
        self._low, self._high, self._dtype = box.low.astype(np.float64), box.high.astype(np.float64), box.dtype

    def step(self, action: Any) -> Any:
        """Step by the action that `action` in [-1, 1] stands for."""
        share = (np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0) + 1.0) / 2
        stretched = np.clip(self._low + share * (self._high - self._low), self._low, self._high)
        return self.env.step(stretched.astype(self._dtype))


def fitted(env: gymnasium.Env[Any, Any], *, unit_actions: bool = True) -> gymnasium.Env[Any, Any]:
    """`env` with flat observations, and with actions in [-1, 1] where its own are a bounded Box."""
    space = env.observation_space
    if not isinstance(space, Box) or len(space.shape) != 1:
        env = FlatObservations(env)
    box = env.action_space
    if unit_actions and isinstance(box, Box) and len(box.shape) == 1 and box.is_bounded():
        env = UnitActions(env, box)
    return env


# --- One part of an observation -------------------------------------------------------------------------------------


class _Part:
    """A leaf of an observation space: how it is taken out of an observation, its ends, and its names."""

    def __init__(self, take: Callable[[Any], Row], low: Row, high: Row, name: str) -> None:
        self.take, self.low, self.high = take, low, high
        one = name or "0"
        self.names = [one] if len(low) == 1 else [f"{name}.{i}" if name else str(i) for i in range(len(low))]


def _parts(space: Space[Any], name: str) -> Iterator[_Part]:
    """The leaves of `space`, in order; `name` is the way to it."""
    if isinstance(space, Dict | Tuple):
        items: Any = space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces)
        for key, inner in items:
            for part in _parts(inner, f"{name}.{key}" if name else str(key)):
                yield _Part(_within(key, part.take), part.low, part.high, _stem(part))
    elif isinstance(space, Box):
        size = math.prod(space.shape)
        if (len(space.shape) == 3 and space.dtype == np.uint8) or size > MAX_ARRAY:
            raise EnvironmentFault(
                f"the observation {name or 'space'} is a picture, {space.shape} {space.dtype}: "
                "--encoder random takes the entropy of its encoding; or wrap the environment to give a state"
            )
        yield _Part(_row, _row(space.low), _row(space.high), name)
    elif isinstance(space, Discrete):
        n, start = int(space.n), int(space.start)
        yield _Part(lambda v: np.eye(n)[int(v) - start], np.zeros(n), np.ones(n), name)
    elif isinstance(space, MultiBinary):
        size = math.prod(space.shape)
        yield _Part(_row, np.zeros(size), np.ones(size), name)
    elif isinstance(space, MultiDiscrete):
        first = _row(space.start)
        yield _Part(_row, first, first + _row(space.nvec) - 1, name)
    else:
        raise EnvironmentFault(
            f"the observation {name or 'space'} is {space}: mepol takes Box, Dict, Tuple, Discrete, MultiBinary and "
            "MultiDiscrete; wrap the environment to give one of them"
        )


def _stem(part: _Part) -> str:
    first = part.names[0]
    return first if len(part.names) == 1 else first.rpartition(".")[0]


def _within(key: Any, take: Callable[[Any], Row]) -> Callable[[Any], Row]:
    return lambda obs: take(obs[key])


def _row(values: Any) -> Row:
    return np.asarray(values, dtype=np.float64).reshape(-1)

"""Any environment as the learners want it: flat observations with names, actions in units of the action space.

    observations   Dict, Tuple and nested spaces, Discrete (one coordinate per value), MultiBinary, MultiDiscrete and
                   arrays are laid out in one row of real numbers; `names` says what each is (`achieved_goal.0`)
    actions        a Box of any shape is one row; a bounded one is reached from [-1, 1], and what lies beyond is
                   clipped: a policy's spread of one covers it whatever its units; others are handed on in raw units,
                   clipped where they have an end

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

from mepol.envs.finite import Leaf, leaves_in
from mepol.errors import EnvironmentFault

Row = NDArray[np.float64]
MAX_ARRAY = 1000  # coordinates of one array: more are taken for a picture


class FlatObservations(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Observations of any space as one row (S,) of float64; `feature_names` says what each coordinate is.

    `observation_leaves` says which of them are finite (finite.py).
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._parts = parts = list(_parts(env.observation_space, ""))
        if not any(len(part.low) for part in parts):
            raise EnvironmentFault(f"the observation space {env.observation_space} has no coordinate: give it one")
        own = getattr(env.unwrapped, "feature_names", None)
        names = [name for part in parts for name in part.names]
        self.feature_names = tuple(own) if own is not None and len(own) == len(names) else tuple(names)
        low, high = np.concatenate([p.low for p in parts]), np.concatenate([p.high for p in parts])
        self.observation_leaves = tuple(leaf for part in parts for leaf in part.leaves)
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
        """(S,) an observation as a row; EnvironmentFault names the part that is not as its space says."""
        return np.concatenate([part.row(obs) for part in self._parts])


class UnitActions(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Actions (A,) in [-1, 1], clipped there and stretched over a bounded Box of any shape."""

    def __init__(self, env: gymnasium.Env[Any, Any], box: Box) -> None:
        super().__init__(env)
        self.action_space = Box(-1.0, 1.0, (math.prod(box.shape),), np.float32)
        self._shape, self._dtype = box.shape, box.dtype
        self._low, self._high = box.low.astype(np.float64), box.high.astype(np.float64)

    def step(self, action: Any) -> Any:
        """Step by the action that `action` in [-1, 1] stands for."""
        share = (np.clip(np.asarray(action, dtype=np.float64).reshape(self._shape), -1.0, 1.0) + 1.0) / 2
        stretched = np.clip(self._low + share * (self._high - self._low), self._low, self._high)
        return self.env.step(np.asarray(stretched, dtype=self._dtype))


class RawActions(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Actions (A,) in the units of a Box of any shape, clipped to the ends that it has."""

    def __init__(self, env: gymnasium.Env[Any, Any], box: Box) -> None:
        super().__init__(env)
        self._box = box
        self.action_space = Box(box.low.reshape(-1), box.high.reshape(-1), dtype=box.dtype.type)

    def step(self, action: Any) -> Any:
        """Step by `action`."""
        own = np.asarray(action).reshape(self._box.shape)
        return self.env.step(np.asarray(np.clip(own, self._box.low, self._box.high), dtype=self._box.dtype))


def fitted(env: gymnasium.Env[Any, Any], *, unit_actions: bool = True) -> gymnasium.Env[Any, Any]:
    """`env` with flat observations, and with flat actions, in [-1, 1] where its own are a bounded Box."""
    space = env.observation_space
    if not isinstance(space, Box) or len(space.shape) != 1 or np.dtype(space.dtype).kind == "b":
        env = FlatObservations(env)
    box = env.action_space
    if not isinstance(box, Box):
        return env
    if unit_actions and box.is_bounded():
        return UnitActions(env, box)
    half = (box.bounded_below | box.bounded_above).any() and not box.is_bounded()
    return RawActions(env, box) if half or len(box.shape) != 1 else env


# --- One part of an observation -------------------------------------------------------------------------------------


class _Part:
    """A part of an observation space: how it is taken out of an observation, its ends, its leaves and its names."""

    def __init__(
        self, take: Callable[[Any], Row], low: Row, high: Row, name: str, leaves: tuple[Leaf, ...] = ()
    ) -> None:
        self.take, self.low, self.high, self.leaves = take, low, high, leaves
        self.name, one = name, name or "0"
        self.names = [one] if len(low) == 1 else [f"{name}.{i}" if name else str(i) for i in range(len(low))]

    def row(self, obs: Any) -> Row:
        """The part of `obs`; EnvironmentFault where it is missing, or not what its space says."""
        what = f"the observation's part {self.name!r}" if self.name else "the observation"
        try:
            row = self.take(obs)
        except (KeyError, IndexError, TypeError, ValueError) as fault:
            raise EnvironmentFault(
                f"{what} is missing, or not of its space ({type(fault).__name__}: {fault}): make them agree"
            ) from fault
        if len(row) != len(self.low):
            raise EnvironmentFault(f"{what} has {len(row)} numbers, and its space {len(self.low)}: make them agree")
        return row


def _parts(space: Space[Any], name: str) -> Iterator[_Part]:
    """The leaves of `space`, in order; `name` is the way to it."""
    if isinstance(space, Dict | Tuple):
        items: Any = space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces)
        for key, inner in items:
            for part in _parts(inner, f"{name}.{key}" if name else str(key)):
                yield _Part(_within(key, part.take), part.low, part.high, part.name, part.leaves)
    elif isinstance(space, Box):
        size = math.prod(space.shape)
        if (len(space.shape) == 3 and space.dtype == np.uint8) or size > MAX_ARRAY:
            remedy = (
                "--encoder random takes the entropy of its encoding; or wrap the environment to give a state"
                if space.dtype == np.uint8
                else "wrap the environment to give a state, or bytes (uint8) from 0 to 255 for --encoder random"
            )
            raise EnvironmentFault(
                f"the observation {name or 'space'} is a picture, {space.shape} {space.dtype}: {remedy}"
            )
        yield _Part(_row, _row(space.low), _row(space.high), name, leaves_in(space))
    elif isinstance(space, Discrete):
        n, start = int(space.n), int(space.start)
        yield _Part(_one_hot(n, start), np.zeros(n), np.ones(n), name, (Leaf(n, n),))
    elif isinstance(space, MultiBinary):
        size = math.prod(space.shape)
        yield _Part(_row, np.zeros(size), np.ones(size), name, (Leaf(1, 2),) * size)
    elif isinstance(space, MultiDiscrete):
        first, sizes = _row(space.start), _row(space.nvec)
        yield _Part(_row, first, first + sizes - 1, name, tuple(Leaf(1, int(n)) for n in sizes))
    else:
        raise EnvironmentFault(
            f"the observation {name or 'space'} is {space}: mepol takes Box, Dict, Tuple, Discrete, MultiBinary and "
            "MultiDiscrete; wrap the environment to give one of them"
        )


def _one_hot(n: int, start: int) -> Callable[[Any], Row]:
    def take(value: Any) -> Row:
        row = np.zeros(n)
        if not 0 <= (at := int(value) - start) < n:
            raise ValueError(f"{value} is not from {start} to {start + n - 1}")
        row[at] = 1.0
        return row

    return take


def _within(key: Any, take: Callable[[Any], Row]) -> Callable[[Any], Row]:
    return lambda obs: take(obs[key])


def _row(values: Any) -> Row:
    return np.asarray(values, dtype=np.float64).reshape(-1)

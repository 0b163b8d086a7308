"""Environments seen as pictures: their own, or for the 2-D domains one that is painted of the state.

What comes out are rows of bytes (S,), as `Picture` lays them out; `info["true_state"]` (G,) has what the environment
knows besides: the state that was painted, or the numbers beside the picture in a dictionary of observations.

    GridWorld     21 x 21, from above     red: the agent     green: walls     blue: the start area
    MountainCar   21 x 21, from the side  red: the car       green: where it was five steps ago at this speed
                                                             blue: the hills

What moves is painted as a smooth dot (a quadratic B-spline, 3 x 3 pixels), so that its centre of mass is its position
to a hundredth of a pixel: no two states look alike to a policy, and a small move is a small change of the picture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Space
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from mepol.algorithm.pictures import Bytes, Picture
from mepol.envs import gridworld, mountain_car
from mepol.envs.batched import Array, BatchedEnv
from mepol.envs.contract import check_observations
from mepol.envs.spaces import FlatObservations
from mepol.errors import EnvironmentFault

Seen = Literal["state", "pixels", "pictures"]
"""What an environment shows: rows of numbers, pixels that are painted here, or its own pictures."""
TRUE_STATE = "true_state"
"""Entry of `info`: (G,) the true state behind a picture, float64."""
SIDE = 21
MARGIN = 1  # pixels around the range of positions, so that a dot is never cut
BEHIND = 5  # steps that the car's trace lies behind it: velocities of +-0.07 are then some pixels wide
ROAD = (mountain_car.MIN_POSITION - 0.4, mountain_car.WALL + 0.4)  # positions that the picture shows


@dataclass(frozen=True, eq=False)
class Truth:
    """The true state behind pictures: G coordinates, float64; an unbounded end is infinite."""

    names: tuple[str, ...]
    low: Array
    high: Array

    @property
    def space(self) -> Box:
        """Its space."""
        return Box(self.low, self.high, dtype=np.float64)


# --- Painting ---------------------------------------------------------------------------------------------------------


def spline(distance: Array) -> Array:
    """The quadratic B-spline: at integer distances its values sum to 1, and their mean lies where its centre is."""
    d = np.abs(distance)
    return np.where(d <= 0.5, 0.75 - d**2, np.where(d < 1.5, (1.5 - d) ** 2 / 2, 0.0))


def dots(column: Array, row: Array) -> Bytes:
    """(M, SIDE, SIDE) a dot each at (M,) columns and rows, in pixels; its brightest is at most 255."""
    at = np.arange(SIDE)
    across, down = spline(column[:, None] - at), spline(row[:, None] - at)
    return np.asarray(np.rint(255 / 0.75**2 * down[:, :, None] * across[:, None, :]), dtype=np.uint8)


def pixel(value: Array, low: float, high: float) -> Array:
    """Where in the picture values between `low` and `high` lie, in pixels from its first."""
    return MARGIN + (value - low) / (high - low) * (SIDE - 1 - 2 * MARGIN)


@cache
def _rooms() -> Bytes:
    """(SIDE, SIDE, 2) share of each pixel that is wall, or beyond the border, and that is start area."""
    fine = 8  # points per pixel along a side
    line = (np.arange(SIDE * fine) + 0.5) / fine - 0.5
    half, pixels = gridworld.HALF_WIDTH, SIDE - 1 - 2 * MARGIN
    x = (line - MARGIN) / pixels * 2 * half - half
    points = np.stack(np.meshgrid(-x, x, indexing="ij"), axis=-1)[..., ::-1].reshape(-1, 2)  # y falls with the row
    start = np.all((points >= gridworld.START_LOW) & (points <= gridworld.START_HIGH), axis=1)
    shares = [mask.reshape(SIDE, fine, SIDE, fine).mean(axis=(1, 3)) for mask in (gridworld.blocked(points), start)]
    return np.asarray(np.rint(255 * np.stack(shares, axis=-1)), dtype=np.uint8)


def paint_gridworld(states: Array) -> Bytes:
    """(M, 2) positions -> (M, 21, 21, 3)."""
    half = gridworld.HALF_WIDTH
    agent = dots(pixel(states[:, 0], -half, half), pixel(-states[:, 1], -half, half))
    ground = np.broadcast_to(_rooms(), (len(states), SIDE, SIDE, 2))
    return np.concatenate([agent[..., None], ground], axis=-1)


def _height(position: Array) -> Array:
    """(M,) rows of the road, in pixels: the hills are sin(3 x)."""
    return pixel(-np.sin(3 * position), -1.0, 1.0)


@cache
def _hills() -> Bytes:
    """(SIDE, SIDE, 1) pixels below the road."""
    position = ROAD[0] + (np.arange(SIDE) - MARGIN) / (SIDE - 1 - 2 * MARGIN) * (ROAD[1] - ROAD[0])
    below = np.arange(SIDE)[:, None] - _height(position)[None] + 0.5
    return np.rint(255 * np.clip(below, 0.0, 1.0)).astype(np.uint8)[..., None]


def paint_mountain_car(states: Array) -> Bytes:
    """(M, 2) positions and velocities -> (M, 21, 21, 3)."""
    position = states[:, 0]
    before = position - BEHIND * states[:, 1]
    car, trace = (dots(pixel(x, *ROAD), _height(x)) for x in (position, before))
    hills = np.broadcast_to(_hills(), (len(states), SIDE, SIDE, 1))
    return np.concatenate([car[..., None], trace[..., None], hills], axis=-1)


PAINTERS: dict[type[BatchedEnv], Callable[[Array], Bytes]] = {
    gridworld.GridWorldVectorEnv: paint_gridworld,
    mountain_car.MountainCarVectorEnv: paint_mountain_car,
}
"""Domain -> (M, S) states -> (M, 21, 21, 3) pictures."""


class _View:
    """How the states of one domain are painted."""

    def __init__(self, env: Any, space: Space[Any]) -> None:
        inner = getattr(env.unwrapped, "_batch", env.unwrapped)
        painter = next((paint for kind, paint in PAINTERS.items() if isinstance(inner, kind)), None)
        if painter is None or not isinstance(space, Box):
            raise EnvironmentFault(
                f"observations = 'pixels' is not possible with {type(inner).__name__}: GridWorld and MountainCar are "
                "painted; an environment that gives pictures itself takes encoder = 'random' alone"
            )
        self.picture, self._paint = Picture(SIDE, SIDE, 3), painter
        self.truth = Truth(inner.feature_names, space.low.astype(np.float64), space.high.astype(np.float64))

    def rows(self, states: Array) -> Bytes:
        """(M, G) states -> (M, S) rows."""
        return self._paint(states).reshape(len(states), -1)


class Painted(VectorWrapper[Any, Any, Any, Any, Any]):
    """A batch of a 2-D domain that shows pictures of its states."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self._view = _View(env, env.single_observation_space)
        self.picture, self.truth = self._view.picture, self._view.truth
        self.single_observation_space = _bytes(self.picture)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)

    def reset(self, **options: Any) -> tuple[Bytes, dict[str, Any]]:
        """Start anew."""
        states, info = self.env.reset(**options)
        return self._view.rows(states), {**info, TRUE_STATE: states}

    def step(self, actions: Any) -> Any:
        """Step."""
        states, *rest, info = self.env.step(actions)
        return self._view.rows(states), *rest, {**info, TRUE_STATE: states}


class PaintedSingle(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One environment of a 2-D domain that shows pictures of its states."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._view = _View(env, env.observation_space)
        self.picture, self.truth = self._view.picture, self._view.truth
        self.observation_space = _bytes(self.picture)

    def reset(self, **options: Any) -> tuple[Bytes, dict[str, Any]]:
        """Start anew."""
        state, info = self.env.reset(**options)
        return self._view.rows(state[None])[0], {**info, TRUE_STATE: state}

    def step(self, action: Any) -> Any:
        """Step."""
        state, *rest, info = self.env.step(action)
        return self._view.rows(state[None])[0], *rest, {**info, TRUE_STATE: state}


# --- Pictures of the environment's own --------------------------------------------------------------------------------


class PictureRows(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose observation is a picture, or a Dict of one picture and numbers, which are its truth."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        space = env.observation_space
        self._key: str | None = None
        self._numbers: FlatObservations | None = None
        if isinstance(space, Dict):
            found = [key for key, part in space.spaces.items() if _is_picture(part)]
            if len(found) == 1:
                self._key = found[0]
                rest = {key: part for key, part in space.spaces.items() if key != self._key}
                self._numbers = FlatObservations(_Numbers(env, Dict(rest))) if rest else None
                space = space.spaces[self._key]
        if not _is_picture(space):
            raise EnvironmentFault(
                f"the observation space is {space}, and encoder = 'random' needs one picture, a Box of uint8 "
                "(height, width, channels) from 0 to 255, alone or in a Dict beside numbers; leave the encoder out"
            )
        self.picture = Picture(*space.shape, *(() if len(space.shape) == 3 else (1,)))  # type: ignore[misc, arg-type]
        self.truth: Truth | None = None
        if self._numbers is not None:
            own = self._numbers.observation_space
            assert isinstance(own, Box)
            self.truth = Truth(self._numbers.feature_names, own.low, own.high)
        self.observation_space = _bytes(self.picture)

    def reset(self, **options: Any) -> tuple[NDArray[Any], dict[str, Any]]:
        """Start anew."""
        return self._seen(*self.env.reset(**options))

    def step(self, action: Any) -> Any:
        """Step."""
        obs, *rest, info = self.env.step(action)
        row, info = self._seen(obs, info)
        return row, *rest, info

    def _seen(self, obs: Any, info: dict[str, Any]) -> tuple[NDArray[Any], dict[str, Any]]:
        picture = obs if self._key is None else obs[self._key]
        known = {} if self._numbers is None else {TRUE_STATE: self._numbers.flat(obs)}
        return self.picture.rows(picture), {**info, **known}


class _Numbers(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that tells of the numbers beside its picture alone."""

    def __init__(self, env: gymnasium.Env[Any, Any], space: Dict) -> None:
        super().__init__(env)
        self.observation_space = space


def _is_picture(space: Space[Any] | None) -> bool:
    whole = isinstance(space, Box) and space.dtype == np.uint8 and len(space.shape) in (2, 3)
    return whole and bool((space.low == 0).all() and (space.high == 255).all())  # type: ignore[union-attr]


def _bytes(picture: Picture) -> Box:
    return Box(0, 255, (picture.size,), np.uint8)


# --- What is shown ----------------------------------------------------------------------------------------------------


def shown(env: gymnasium.Env[Any, Any], seen: Seen) -> gymnasium.Env[Any, Any]:
    """`env` with what `seen` says for observations."""
    if seen == "pixels":
        return PaintedSingle(env)
    return PictureRows(env) if seen == "pictures" else env


def view_of(env: VectorEnv[Any, Any, Any]) -> tuple[Picture | None, Truth | None]:
    """What rows of a batch are pictures of, and what is known of the true states; None where they are neither."""
    place: Any = env
    while isinstance(place, VectorWrapper) and not isinstance(place, Painted):
        place = place.env
    if isinstance(place, Painted):
        return place.picture, place.truth
    single = (getattr(place, "envs", None) or [None])[0]
    while isinstance(single, gymnasium.Wrapper):
        if isinstance(single, PaintedSingle | PictureRows):
            return single.picture, single.truth
        single = single.env
    return None, None


def true_states(info: dict[str, Any], shape: tuple[int, ...], call: str) -> Array:
    """The true states of `shape` (R, G) behind pictures, as `info` has them."""
    if TRUE_STATE not in info:
        raise EnvironmentFault(f"the environment's {call} did not tell the true states behind its pictures")
    return check_observations(info[TRUE_STATE], shape, call).astype(np.float64)

"""Observation coordinates as a user writes them: names, selections of features, and grids over two of them."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from mepol.errors import ConfigError, EnvironmentFault

Floats = NDArray[np.float64]
Feature = int | tuple[int, int]
"""A coordinate by number, or two that are the cosine and the sine of an angle."""
Features = tuple[Feature, ...] | Callable[[Floats], Floats]
"""What the entropy is taken of: D of these, or a function of (N, S) states that gives (N, D)."""

BINS = 20
MAX_BINS = 4096  # along a side of a grid
MAX_NAME = 200  # characters
FILE_MODULE = "mepol_file_"
"""How the modules that stand for files are called (names.py), which no sentence does."""

# --- Names --------------------------------------------------------------------------------------------------------


def told_by(env: Any, name: str) -> Any:
    """An attribute of the environment, of what it wraps, or of the single environments that it steps in turn; or None.

    Of wrappers the outermost that has it is asked.
    """
    inner = getattr(env, "unwrapped", env)
    single = (getattr(inner, "envs", None) or [None])[0]
    found = [getattr(place, name, None) for place in (env, inner)]
    if isinstance(single, gymnasium.Env) and single.has_wrapper_attr(name):
        found.append(single.get_wrapper_attr(name))
    return next((value for value in found if value is not None), None)


def feature_names(env: Any, state_dim: int) -> tuple[str, ...]:
    """The environment's own names for its coordinates (`feature_names`), or `0`, `1`, ... where it has none."""
    names = told_by(env, "feature_names")
    if names is None:
        return tuple(str(i) for i in range(state_dim))
    if isinstance(names, str) or not all(isinstance(n, str) and 0 < len(n) <= MAX_NAME for n in names):
        raise EnvironmentFault(
            f"the environment's feature_names must be a list of texts of at most {MAX_NAME} characters"
        )
    if len(names) != state_dim:
        raise EnvironmentFault(
            f"the environment's feature_names are {len(names)}, and its observations have {state_dim} coordinates: "
            "give one name per coordinate"
        )
    return tuple(names)


def name_of(thing: Any) -> str:
    """How a sentence calls a function or class: `module:name`, or `file.py:name`; a text is its own name."""
    if isinstance(thing, str):
        return thing
    thing = getattr(thing, "func", thing)  # of a functools.partial
    name = getattr(thing, "__qualname__", None) or type(thing).__qualname__
    module = str(getattr(thing, "__module__", "?"))
    if module.startswith(FILE_MODULE):
        module = getattr(sys.modules.get(module), "__file__", None) or module
    return f"{module}:{name}"[-MAX_NAME:]


# --- Features -----------------------------------------------------------------------------------------------------


def select_features(text: str, names: Sequence[str]) -> tuple[Feature, ...]:
    """Features that `text` means: `all`, or a comma-separated list of names, numbers, ranges `start:stop` and angles.

    A name that stands before a dot means all that follow it (`achieved_goal`); `-NAME`, or `not NAME`, leaves out;
    `angle(COS,SIN)` is the angle of two coordinates.
    """
    chosen: list[Feature] = []
    for number, item in enumerate(re.split(r",(?![^(]*\))", text)):
        leaves_out, item = _without_sign(item.strip(), names)
        if leaves_out and not number:
            chosen.extend(range(len(names)))
        found = range(len(names)) if item in ("", "all") else _select(item, names)
        if leaves_out:
            chosen = [feature for feature in chosen if feature not in found]
        else:
            chosen.extend(found)
    if len(set(chosen)) != len(chosen):
        raise ConfigError(f"features {text!r} name a coordinate twice")
    if not chosen:
        raise ConfigError(f"features {text!r} leave no coordinate")
    return tuple(chosen)


def select_coordinates(text: str, names: Sequence[str]) -> tuple[int, ...]:
    """Coordinates that `text` means: as `select_features`, without angles."""
    chosen = select_features(text, names)
    if angle := next((feature for feature in chosen if not isinstance(feature, int)), None):
        raise ConfigError(f"{label_of(angle, names)} is no coordinate: name coordinates here")
    return tuple(feature for feature in chosen if isinstance(feature, int))


def label_of(feature: Feature, names: Sequence[str]) -> str:
    """How a feature is called, and written in a selection."""
    return names[feature] if isinstance(feature, int) else f"angle({names[feature[0]]},{names[feature[1]]})"


def _without_sign(item: str, names: Sequence[str]) -> tuple[bool, str]:
    """Whether `item` leaves out, and what."""
    if item not in names:
        for sign in ("-", "not "):
            if item.startswith(sign):
                return True, item.removeprefix(sign).strip()
    return False, item


def _select(item: str, names: Sequence[str]) -> Sequence[Feature]:
    if item in names:
        return [names.index(item)]
    if len(item) > 2 * MAX_NAME:
        raise ConfigError(f"no feature is called {item[:20]!r}...")
    if item.startswith("angle(") and item.endswith(")"):
        ends = [index for end in item[6:-1].split(",") for index in select_coordinates(end.strip(), names)]
        if len(ends) != 2:
            raise ConfigError(f"{item!r} must name two coordinates, the cosine and the sine: angle(COS,SIN)")
        return [(ends[0], ends[1])]
    if group := [i for i, name in enumerate(names) if name.startswith(f"{item}.")]:
        return group
    start, colon, stop = item.partition(":")
    if colon and all(end == "" or end.isdecimal() for end in (start, stop)) and max(len(start), len(stop)) < 10:
        first, last = int(start or 0), int(stop or len(names))
        if first < last <= len(names):
            return range(first, last)
    elif item.isdecimal() and len(item) < 10 and int(item) < len(names):
        return [int(item)]
    near = get_close_matches(item, names, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    raise ConfigError(f"no feature {item!r} among the {len(names)} coordinates ({listed}){hint}")


def features_of(states: Floats, where: NDArray[np.bool_], features: Features) -> Floats:
    """(N, D) features of the N states (..., S) that the mask `where` (...) marks."""
    if callable(features):
        return _computed(features, states[where])
    at = [feature if isinstance(feature, int) else feature[0] for feature in features]
    chosen: Floats = states[..., at][where]
    for column, feature in enumerate(features):
        if not isinstance(feature, int):
            chosen[:, column] = np.arctan2(states[..., feature[1]][where], chosen[:, column])
    return chosen


def _computed(function: Callable[[Floats], Floats], states: Floats) -> Floats:
    """(N, D) what a user's function makes of (N, S) states, checked."""
    name = name_of(function)
    try:
        values = np.asarray(function(states))
    except ConfigError:
        raise
    except Exception as fault:
        raise ConfigError(f"the features {name!r} raised {type(fault).__name__}: {fault}") from fault
    if values.ndim != 2 or len(values) != len(states) or not values.shape[1] or values.dtype.kind not in "iuf":
        raise ConfigError(
            f"the features {name!r} returned {values.shape} {values.dtype}, not ({len(states)}, D) real numbers"
        )
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).all(axis=1)))
        raise ConfigError(f"the features {name!r} gave a NaN or infinite value for the state {states[row].tolist()}")
    return values.astype(np.float64, copy=False)


class Absent:
    """A function whose name a file holds, and which nobody handed in again."""

    def __init__(self, name: str) -> None:
        self.__module__, _, self.__qualname__ = name.rpartition(":")

    def __call__(self, states: Floats) -> Floats:
        """Refuses, since no file decides what is run."""
        raise ConfigError(f"the features are the function {name_of(self)!r}, which is not stored: hand it in again")


# --- Grids --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """Cells over two state coordinates; the outer cells absorb what lies outside the range.

    A grid over one coordinate is a line: it stands for both axes, and the second has one cell.
    """

    axes: tuple[int, int]
    names: tuple[str, str]
    low: tuple[float, float]
    high: tuple[float, float]
    bins: tuple[int, int]

    def __post_init__(self) -> None:
        for name, low, high in zip(self.names, self.low, self.high, strict=True):
            if not (math.isfinite(low) and math.isfinite(high)):
                raise ConfigError(f"feature {name!r} is unbounded: give its range with heatmap_low and heatmap_high")
            if not low < high:
                raise ConfigError(f"feature {name!r} has the zero-width range [{low:g}, {high:g}]; widen it")

    @property
    def line(self) -> bool:
        """Whether it is over one coordinate."""
        return self.axes[0] == self.axes[1]

    @property
    def shown(self) -> int:
        """Coordinates that it is over: 1 or 2."""
        return 1 if self.line else 2


def line_grid(axis: int, names: Sequence[str], low: float, high: float, bins: int) -> Grid:
    """Cells over the coordinate `axis` alone."""
    return Grid((axis, axis), (names[axis], names[axis]), (low, low), (high, high), (bins, 1))


def cells_of(points: Floats, grid: Grid) -> NDArray[np.int64]:
    """(..., 2) values of the grid's coordinates -> (..., 2) the cell that each falls in."""
    bins, low, high = np.array(grid.bins), np.array(grid.low), np.array(grid.high)
    cell: NDArray[np.int64] = np.clip(np.floor((points - low) / (high - low) * bins), 0, bins - 1).astype(np.int64)
    return cell


def is_inside(points: Floats, grid: Grid) -> NDArray[np.bool_]:
    """(..., 2) values of the grid's coordinates -> (...) whether they lie within its ranges, ends included."""
    return np.asarray(((points >= grid.low) & (points <= grid.high)).all(axis=-1))


def pair_grid(text: str, names: Sequence[str], space: Box, known: Grid | None = None) -> Grid:
    """The grid of a pair of coordinates as a user writes it: `x,y`, or with ranges and bins `x:-12:12:40,z:0:2:20`.

    text: two of `NAME`, `NAME:LOW:HIGH` or `NAME:LOW:HIGH:BINS`, with a comma between, or one of them, which is a line;
    names may be numbers. A range that is not given is that of `known`, or else the observation space's.
    """
    parts = text.split(",")
    if len(parts) > 2:
        raise ConfigError(f"{text!r} must name one coordinate or two, such as x,y or x:-12:12:40,y:-12:12:40")
    if len(parts) == 1:
        axis, low, high, bins = _axis(text.strip(), names, space, known)
        return line_grid(axis, names, low, high, bins)
    first, second = (_axis(part.strip(), names, space, known) for part in parts)
    if first[0] == second[0]:
        raise ConfigError(f"the pair {text!r} names {names[first[0]]!r} twice")
    return Grid(
        axes=(first[0], second[0]),
        names=(names[first[0]], names[second[0]]),
        low=(first[1], second[1]),
        high=(first[2], second[2]),
        bins=(first[3], second[3]),
    )


def _axis(text: str, names: Sequence[str], space: Box, known: Grid | None) -> tuple[int, float, float, int]:
    """Coordinate, lower end, upper end and bins of one half of a pair."""
    name, *rest = text.split(":")
    chosen = select_coordinates(name, names)
    if len(chosen) != 1 or len(rest) not in (0, 2, 3):
        raise ConfigError(f"{text!r} is not a coordinate: write NAME, NAME:LOW:HIGH or NAME:LOW:HIGH:BINS")
    axis = chosen[0]
    low, high, bins = float(space.low[axis]), float(space.high[axis]), BINS
    if known is not None and axis in known.axes:
        at = known.axes.index(axis)
        low, high, bins = known.low[at], known.high[at], known.bins[at]
    try:
        if rest:
            low, high = float(rest[0]), float(rest[1])
        if len(rest) == 3:
            bins = int(rest[2])
    except ValueError as fault:
        raise ConfigError(f"{text!r} holds something that is not a number: {fault}") from fault
    if not 1 <= bins <= MAX_BINS:
        raise ConfigError(f"bins = {bins} is not possible: it must be from 1 to {MAX_BINS}")
    return axis, low, high, bins

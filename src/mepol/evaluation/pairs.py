"""A pair of coordinates as a user writes it: `x,y`, or with ranges and bins `x:-12:12:40,z:0:2:20`."""

from __future__ import annotations

from collections.abc import Sequence

from gymnasium.spaces import Box

from mepol.envs.coordinates import select_features
from mepol.errors import ConfigError
from mepol.evaluation.visits import Grid

BINS = 20


def pair_grid(text: str, names: Sequence[str], space: Box, known: Grid | None = None) -> Grid:
    """The grid that `text` means. A range that is not given is that of `known`, or else the observation space's.

    text: two of `NAME`, `NAME:LOW:HIGH` or `NAME:LOW:HIGH:BINS`, with a comma between; names may be numbers.
    """
    parts = text.split(",")
    if len(parts) != 2:
        raise ConfigError(f"the pair {text!r} must name two coordinates, such as x,y or x:-12:12:40,y:-12:12:40")
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
    chosen = select_features(name, names)
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
    if not 1 <= bins <= 4096:
        raise ConfigError(f"bins = {bins} is not possible: it must be from 1 to 4096")
    return axis, low, high, bins

"""The grid that heatmaps show: as a user says, or over what reaches furthest in random play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from mepol.envs.coordinates import Features, Grid, line_grid, select_coordinates
from mepol.envs.survey import ROOM, Survey, rounded
from mepol.errors import ConfigError

FIRST_TWO = "0,1"


@dataclass(frozen=True)
class Wanted:
    """What the settings of a run say of its heatmaps."""

    axes: str | None = FIRST_TWO
    """As a user writes them; None for those that reach furthest in random play."""
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    bins: tuple[int, int] = (20, 20)


def grid_of(
    space: Box,
    names: tuple[str, ...],
    asked: Wanted,
    survey: Survey | None,
    features: Features,
    hidden: NDArray[np.bool_] | None = None,
) -> Grid | None:
    """The grid of visits, a line where there is but one coordinate. Nobody asked, and the range is unknown: None.

    hidden: (S,) coordinates that are shown only to who asks for them.
    """
    axes, low, high = asked.axes, asked.low, asked.high
    wanted = axes not in (FIRST_TWO, None) or low or high
    if not names:
        return None
    if axes is None and survey is not None:
        chosen = _widest(survey, features, [i for i in range(len(names)) if hidden is None or not hidden[i]])
    elif len(names) == 1 and not wanted:
        chosen = (0,)
    else:
        chosen = select_coordinates(axes or FIRST_TWO, names)
    if not chosen:
        return None
    if len(chosen) > 2:
        raise ConfigError(f"heatmap_axes = {axes!r} must name one coordinate or two")
    ends = [_ends(space, axis, survey) for axis in chosen]
    low = low or (ends[0][0], ends[-1][0])
    high = high or (ends[0][1], ends[-1][1])
    if not wanted and not np.isfinite([*low, *high]).all():
        return None
    if len(chosen) == 1:
        return line_grid(chosen[0], names, low[0], high[0], asked.bins[0])
    return Grid((chosen[0], chosen[1]), (names[chosen[0]], names[chosen[1]]), low, high, asked.bins)


def _widest(survey: Survey, features: Features, among: Sequence[int]) -> tuple[int, ...]:
    """The two of `among` that reach furthest, those that the features are of before others, in their order."""
    own = () if callable(features) else features
    able = {i for f in own for i in (f if isinstance(f, tuple) else (f,))}
    ranked = sorted(among, key=lambda i: (i not in able, -survey.reach[i], i))
    return tuple(sorted(ranked[:2]))


def _ends(space: Box, axis: int, survey: Survey | None) -> tuple[float, float]:
    """Range of a coordinate: its bounds, or where it has none that say something, some times that of random play."""
    low, high = float(space.low[axis]), float(space.high[axis])
    if survey is None or high - low < 1e6:
        return low, high
    middle, half = (survey.low[axis] + survey.high[axis]) / 2, (survey.high[axis] - survey.low[axis]) / 2
    half = half or 0.5
    return rounded(middle - ROOM * half), rounded(middle + ROOM * half)

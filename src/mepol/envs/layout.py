"""What the entropy is taken of, in which units, and what the heatmaps show: as a user says, or as random play suggests.

A paper's preset says everything. An environment that nobody described is surveyed (survey.py), and each choice that
was made for the user is one note.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mepol.envs.contract import check_observations, guard
from mepol.envs.coordinates import (
    Feature,
    Features,
    Floats,
    Grid,
    features_of,
    label_of,
    select_coordinates,
    select_features,
)
from mepol.envs.survey import RESOLUTION, ROOM, UNEVEN, Survey, listed, propose_features, rounded
from mepol.errors import ConfigError

AUTO = "auto"
Scaling = Literal["off", "bounds", "spread", "auto"]
Coinciding = Literal["refuse", "floor"]
SURFACE = 0.75  # share of their number that features must span, up to this many of them:
SURFACE_DIM = 6


@dataclass(frozen=True)
class Asked:
    """What the settings of a run say of its features and its heatmaps."""

    features: str | Callable[[Floats], Floats] = "all"
    scale_features: Scaling = "off"
    coinciding: Coinciding = "refuse"
    heatmap_axes: str = "0,1"
    heatmap_low: tuple[float, float] | None = None
    heatmap_high: tuple[float, float] | None = None
    heatmap_bins: tuple[int, int] = (20, 20)
    ceiling: float | None = None

    @property
    def needs_survey(self) -> bool:
        """Whether something is left to random play."""
        left = AUTO in (self.features, self.scale_features, self.heatmap_axes)
        return left or self.scale_features == "spread" or self.coinciding == "floor"


@dataclass(frozen=True)
class Layout:
    """What came of it."""

    features: Features
    widths: tuple[float, ...]
    floor: float
    grid: Grid | None
    ceiling: float | None
    notes: tuple[str, ...]


def lay_out(
    env: VectorEnv[Any, Any, Any],
    space: Box,
    names: tuple[str, ...],
    asked: Asked,
    survey: Survey | None,
    over: tuple[tuple[str, ...], Box],
) -> Layout:
    """Resolve what was asked for; every fault is named. over: names and space of what heatmaps show."""
    if asked.needs_survey and survey is None:
        raise ConfigError("features, units or heatmaps are left to a survey, and the environment was not surveyed")
    notes: list[str] = []
    features: Features
    if callable(asked.features):
        features = asked.features
    elif asked.features == AUTO and survey is not None:
        proposal = propose_features(survey, names)
        features = proposal.features
        notes += proposal.notes
    else:
        features = select_features(asked.features, names)
    widths = _widths(env, space, names, features, asked.scale_features, survey, notes)
    if survey is not None:
        _warn_of_surfaces(survey, names, features, notes)
    return Layout(
        features=features,
        widths=widths,
        floor=_floor(survey, features, widths) if survey is not None and asked.coinciding == "floor" else 0.0,
        grid=_grid(over[1], over[0], asked, survey, features),
        ceiling=_ceiling(space, features) if asked.ceiling is None and survey is not None else asked.ceiling,
        notes=tuple(notes),
    )


def span(low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    """Widths of ranges; infinite, and no warning, where an end is."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(high - low)


# --- Units of distance ----------------------------------------------------------------------------------------------


def _widths(
    env: VectorEnv[Any, Any, Any],
    space: Box,
    names: tuple[str, ...],
    features: Features,
    scaling: Scaling,
    survey: Survey | None,
    notes: list[str],
) -> tuple[float, ...]:
    """D units of distance, one per feature."""
    if callable(features):
        if scaling in ("bounds", "spread"):
            raise ConfigError("scale_features is not possible with a function of features: let it scale what it gives")
        return (1.0,) * _count(env, space, features)
    if scaling == "bounds":
        return _bounds(space, names, features)
    if survey is None or scaling == "off":
        return (1.0,) * len(features)
    spreads = [_spread(survey, feature) for feature in features]
    ratio = max(spreads) / min(spreads)
    if scaling == "auto" and ratio <= UNEVEN:
        return (1.0,) * len(features)
    if scaling == "auto":
        least, most = (features[spreads.index(end(spreads))] for end in (min, max))
        notes.append(
            f"{label_of(most, names)} spreads {rounded(ratio):g} times as far as {label_of(least, names)}: distances "
            "are in units of each one's spread, entropies stay in raw units (--scale-features off: raw distances)"
        )
    return tuple(rounded(spread) for spread in spreads)


def _count(env: VectorEnv[Any, Any, Any], space: Box, features: Callable[[Floats], Floats]) -> int:
    """How many features a function gives: it is tried on the start states of one reset."""
    seeds: Any = list(range(env.num_envs))
    with guard("reset"):
        starts, _ = env.reset(seed=seeds)
    states = check_observations(starts, (env.num_envs, *space.shape), "reset").astype(np.float64)
    return int(features_of(states, np.ones(len(states), dtype=bool), features).shape[1])


def _bounds(space: Box, names: tuple[str, ...], features: tuple[Feature, ...]) -> tuple[float, ...]:
    width = span(space.low, space.high).astype(np.float64)
    widths = [2 * math.pi if isinstance(feature, tuple) else float(width[feature]) for feature in features]
    for feature, found in zip(features, widths, strict=True):
        if not 0 < found < np.inf:
            raise ConfigError(
                f"feature {label_of(feature, names)!r} has width {found:g}: scale_features bounds needs bounded "
                "features; scale_features spread takes any"
            )
    return tuple(widths)


def _spread(survey: Survey, feature: Feature) -> float:
    """Standard deviation of a feature in random play; one that did not move counts as one that moves by 1."""
    every = np.ones(survey.states.shape[:2], dtype=bool)
    return float(features_of(survey.states, every, (feature,)).std()) or 1.0


def _floor(survey: Survey, features: Features, widths: tuple[float, ...]) -> float:
    """Distance below which states are one place, in the units of distance: a share of the features' spread."""
    if callable(features):
        states = survey.states[:, 1:]
        values = features_of(states, np.ones(states.shape[:2], dtype=bool), features)
        spreads = [float(spread) or 1.0 for spread in values.std(axis=0)]
    else:
        spreads = [_spread(survey, feature) for feature in features]
    return RESOLUTION * math.exp(float(np.mean(np.log(np.array(spreads) / np.array(widths)))))


# --- Surfaces and ceilings ------------------------------------------------------------------------------------------


def _warn_of_surfaces(survey: Survey, names: tuple[str, ...], features: Features, notes: list[str]) -> None:
    """Say it where features lie on a surface: an entropy index is then one of few samples, and grows as they do not."""
    if callable(features) or len(features) < 2:
        return
    plain = [feature for feature in features if isinstance(feature, int)]
    why = [f"{names[i]} and {names[j]} are the cosine and sine of one angle" for i, j in survey.angles(plain)]
    if why:
        pairs = ",".join(f"angle({names[i]},{names[j]})" for i, j in survey.angles(plain))
        why[-1] += f" (--features {pairs},... takes the angle)"
    why += [f"{listed(q, names)} are a unit quaternion" for q in survey.quaternions(plain)]
    if not why and len(features) <= SURFACE_DIM:
        every = np.ones(survey.states.shape[:2], dtype=bool)
        points = features_of(survey.states, every, features).reshape(*survey.states.shape[:2], -1)
        found = survey.dimension(points)
        if found < SURFACE * len(features):
            why = [f"random play fills about {found:.1f} of their {len(features)} dimensions"]
    if why:
        notes.append(
            f"the features lie on a surface: {'; '.join(why)}; compare entropy indices only at equal particles and k"
        )


def _ceiling(space: Box, features: Features) -> float | None:
    """ln of the volume of the features' bounds, in nats, where all are bounded: no policy can reach more."""
    if callable(features):
        return None
    width = span(space.low, space.high).astype(np.float64)
    widths = np.array([2 * math.pi if isinstance(feature, tuple) else width[feature] for feature in features])
    sensible = (widths > 0) & (widths < 1e6)  # a bound of 1e38 is none
    return float(np.log(widths).sum()) if sensible.all() else None


# --- Heatmaps -------------------------------------------------------------------------------------------------------


def _grid(space: Box, names: tuple[str, ...], asked: Asked, survey: Survey | None, features: Features) -> Grid | None:
    """The grid of visits. Nobody asked for one, and the range is unknown or there is but one coordinate: None."""
    axes, low, high = asked.heatmap_axes, asked.heatmap_low, asked.heatmap_high
    wanted = axes not in ("0,1", AUTO) or low or high
    if len(names) < 2 and not wanted:
        return None
    if axes == AUTO and survey is not None:
        chosen = _widest(survey, features, len(names))
    else:
        chosen = select_coordinates("0,1" if axes == AUTO else axes, names)
    if len(chosen) != 2:
        raise ConfigError(f"heatmap_axes = {axes!r} must name two coordinates")
    ends = [_ends(space, axis, survey) for axis in chosen]
    low = low or (ends[0][0], ends[1][0])
    high = high or (ends[0][1], ends[1][1])
    if not wanted and not np.isfinite([*low, *high]).all():
        return None
    return Grid((chosen[0], chosen[1]), (names[chosen[0]], names[chosen[1]]), low, high, asked.heatmap_bins)


def _widest(survey: Survey, features: Features, count: int) -> tuple[int, ...]:
    """The two coordinates of the features that reach furthest, of all where the features are fewer, in their order."""
    own = () if callable(features) else features
    able = {i for f in own for i in (f if isinstance(f, tuple) else (f,))}
    ranked = sorted(range(count), key=lambda i: (i not in able, -survey.reach[i], i))
    return tuple(sorted(ranked[:2]))


def _ends(space: Box, axis: int, survey: Survey | None) -> tuple[float, float]:
    """Range of a coordinate: its bounds, or where it has none that say something, some times that of random play."""
    low, high = float(space.low[axis]), float(space.high[axis])
    if survey is None or high - low < 1e6:
        return low, high
    middle, half = (survey.low[axis] + survey.high[axis]) / 2, (survey.high[axis] - survey.low[axis]) / 2
    half = half or 0.5
    return rounded(middle - ROOM * half), rounded(middle + ROOM * half)

"""What the entropy is taken of, in which units, and what the heatmaps show: as a user says, or as random play suggests.

A paper's preset says everything. An environment that nobody described is surveyed (survey.py), and each choice that
was made for the user is one note.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
    select_features,
)
from mepol.envs.finite import Leaf, column_mask, places_in
from mepol.envs.grids import Wanted, grid_of
from mepol.envs.survey import RESOLUTION, UNEVEN, Survey, listed, propose_features, rounded
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
    def heatmap(self) -> Wanted:
        """What they say of the heatmaps."""
        axes = None if self.heatmap_axes == AUTO else self.heatmap_axes
        return Wanted(axes, self.heatmap_low, self.heatmap_high, self.heatmap_bins)

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
    tabular: bool = False


def lay_out(
    env: VectorEnv[Any, Any, Any],
    space: Box,
    names: tuple[str, ...],
    asked: Asked,
    survey: Survey | None,
    over: tuple[tuple[str, ...], Box],
    leaves: Sequence[Leaf] = (),
) -> Layout:
    """Resolve what was asked for; every fault is named. over: names and space of what heatmaps show.

    leaves: of the observations (finite.py), where they are not pictures.
    """
    if asked.needs_survey and survey is None:
        raise ConfigError("features, units or heatmaps are left to a survey, and the environment was not surveyed")
    count = places_in(leaves) if asked.coinciding == "floor" else None
    if survey is not None and count is not None and isinstance(asked.features, str):
        return _tabular(space, names, asked, asked.features, survey, leaves, count)
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
        grid=grid_of(over[1], over[0], asked.heatmap, survey, features),
        ceiling=_ceiling(space, features, leaves) if asked.ceiling is None and survey is not None else asked.ceiling,
        notes=tuple(notes),
    )


def _tabular(
    space: Box,
    names: tuple[str, ...],
    asked: Asked,
    chosen: str,
    survey: Survey,
    leaves: Sequence[Leaf],
    count: int,
) -> Layout:
    """Of `count` states that are counted: nothing is left out of them, and no distance is taken."""
    whole = chosen in (AUTO, "all")
    features = select_features("all" if whole else chosen, names)
    most = f", at most ln {count} = {math.log(count):.3f} nats" if whole else ""
    note = f"observations are one of {count} states: the entropy is that of the visits to them, counted{most}"
    own = math.log(count) if whole else None
    hidden = column_mask(leaves, [leaf.one_hot for leaf in leaves])  # a map over two truth values shows nothing
    return Layout(
        features=features,
        widths=(1.0,) * len(features),
        floor=0.0,
        grid=grid_of(space, names, asked.heatmap, survey, features, hidden),
        ceiling=own if asked.ceiling is None else asked.ceiling,
        notes=(note,),
        tabular=True,
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


def _ceiling(space: Box, features: Features, leaves: Sequence[Leaf]) -> float | None:
    """ln of the volume of the features' bounds, in nats, where all are bounded: no policy can reach more.

    None where some are whole numbers or truth values, which have no density.
    """
    if callable(features):
        return None
    whole = column_mask(leaves, [leaf.values > 0 for leaf in leaves])
    if any(whole[list(np.atleast_1d(feature))].any() for feature in features):
        return None
    width = span(space.low, space.high).astype(np.float64)
    widths = np.array([2 * math.pi if isinstance(feature, tuple) else width[feature] for feature in features])
    sensible = (widths > 0) & (widths < 1e6)  # a bound of 1e38 is none
    return float(np.log(widths).sum()) if sensible.all() else None

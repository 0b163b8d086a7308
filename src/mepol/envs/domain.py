"""What a run knows of its environment: resolved once from a live one, and stored so that none is made to ask."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.spaces import Box, MultiDiscrete
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mepol.algorithm.batch import Batch
from mepol.envs import domain_json
from mepol.envs.choices import Choices, choices_of, kind_of, space_of
from mepol.envs.contract import check_observations, check_spaces, guard
from mepol.envs.coordinates import Features, Floats, Grid, feature_names, features_of, select_features
from mepol.envs.domain_json import MAX_SIZE
from mepol.envs.reachable import reachable_cells
from mepol.errors import ConfigError, EnvironmentFault, MepolError, RunError


@dataclass(frozen=True, eq=False)
class Domain:
    """What a run needs to know of its environment. Arrays are float64; an unbounded end is infinite."""

    env: str
    """Gymnasium id of the environment, or the name of what makes it."""
    low: Floats
    """(S,) lower ends of the observations."""
    high: Floats
    """(S,) upper ends."""
    action_low: Floats
    """(A,) lower ends of the actions."""
    action_high: Floats
    """(A,) upper ends."""
    names: tuple[str, ...]
    """S names of the coordinates."""
    features: Features
    """What the entropy is taken of: D coordinates, or a function of (N, S) states that gives (N, D)."""
    widths: tuple[float, ...]
    """D units of distance, one per entropy feature."""
    grid: Grid | None
    """Cells of the visits; None where the range is unknown and nobody gave one."""
    ceiling: float | None = None
    """Highest entropy that any policy can reach, nats, where it is known."""
    reachable: NDArray[np.bool_] | None = None
    """(bins_0, bins_1) which cells of the grid can be reached, where it is known."""
    dtypes: tuple[str, str] = ("float64", "float32")
    """Types of observations and actions."""
    choices: Choices | None = None
    """How many values each column of an action has, 0 .. n-1, where actions are discrete."""

    @staticmethod
    def of(
        env: VectorEnv[Any, Any, Any],
        *,
        name: str,
        features: str | Callable[[Floats], Floats] = "all",
        scale_features: bool = False,
        heatmap_axes: str = "0,1",
        heatmap_low: tuple[float, float] | None = None,
        heatmap_high: tuple[float, float] | None = None,
        heatmap_bins: tuple[int, int] = (20, 20),
        ceiling: float | None = None,
    ) -> Domain:
        """Read the spaces and resolve names, features and grid; every fault is named before anything is written.

        Features given as a function are tried on the start states of one reset, which tells how many they are.
        """
        space, actions = check_spaces(env)
        if max(space.shape[0], actions.shape[0]) > MAX_SIZE:
            raise EnvironmentFault(
                f"the environment has {space.shape[0]} observed coordinates and {actions.shape[0]} actions, "
                f"and mepol takes at most {MAX_SIZE} of each"
            )
        ends = (actions.low, actions.high) if isinstance(actions, Box) else (actions.start, actions.nvec - 1)
        names = feature_names(env, space.shape[0])
        chosen = features if callable(features) else select_features(features, names)
        grid = _grid(space, names, heatmap_axes, heatmap_low, heatmap_high, heatmap_bins)
        return Domain(
            env=name,
            low=space.low.astype(np.float64),
            high=space.high.astype(np.float64),
            action_low=ends[0].astype(np.float64),
            action_high=ends[1].astype(np.float64),
            names=names,
            features=chosen,
            widths=_widths(env, space, names, chosen, scale_features),
            grid=grid,
            ceiling=ceiling,
            reachable=None if grid is None else reachable_cells(env, grid),
            dtypes=(str(space.dtype), str(actions.dtype)),
            choices=choices_of(actions),
        )

    @property
    def state_dim(self) -> int:
        """S."""
        return len(self.low)

    @property
    def action_dim(self) -> int:
        """A."""
        return len(self.action_low)

    @cached_property
    def space(self) -> Box:
        """The observation space."""
        return _box(self.low, self.high, self.dtypes[0])

    @cached_property
    def action_space(self) -> Box | MultiDiscrete:
        """The action space."""
        return space_of(self.choices) if self.choices else _box(self.action_low, self.action_high, self.dtypes[1])

    @cached_property
    def bounded(self) -> NDArray[np.bool_]:
        """(S,) which coordinates have a finite range of some width."""
        return np.asarray(_is_width(_span(self.low, self.high)))

    @property
    def middle(self) -> Floats:
        """(S,) middle of each bounded coordinate's range, 0 for the others."""
        low, high = (np.where(self.bounded, end, 0.0) for end in (self.low, self.high))
        return np.asarray((low + high) / 2)

    @property
    def half_width(self) -> Floats:
        """(S,) half of each bounded coordinate's range, 1 for the others."""
        low, high = np.where(self.bounded, self.low, 0.0), np.where(self.bounded, self.high, 2.0)
        return np.asarray((high - low) / 2)

    @property
    def feature_labels(self) -> list[str] | None:
        """Names of the entropy features, in order; None where they are a function's."""
        return None if callable(self.features) else [self.names[i] for i in self.features]

    def particles(self, batch: Batch) -> Floats:
        """(N, D) the entropy features of s_1 .. s_length of each trajectory in turn (s_0 is not a particle)."""
        return features_of(batch.states[:, 1:], batch.visited(), self.features)

    def require_fit(self, env: VectorEnv[Any, Any, Any]) -> None:
        """EnvironmentFault unless `env` has as many state coordinates and actions as the domain."""
        found = tuple(
            int(np.prod(space.shape or ())) for space in (env.single_observation_space, env.single_action_space)
        )
        if found != (self.state_dim, self.action_dim):
            raise EnvironmentFault(
                f"the environment has {found[0]} state coordinates and {found[1]} actions, and {self.env} had "
                f"{self.state_dim} and {self.action_dim} when this was stored: it is not the same environment"
            )
        if (choices := choices_of(env.single_action_space)) != self.choices:
            raise EnvironmentFault(
                f"the environment has {kind_of(choices)} actions, and {self.env} had {kind_of(self.choices)} ones when "
                "this was stored: it is not the same environment"
            )

    def to_json(self) -> str:
        """The text of domain.json; features that are a function are stored by name only."""
        return domain_json.write({field.name: getattr(self, field.name) for field in dataclasses.fields(self)})

    @staticmethod
    def from_json(
        text: str, *, features: Callable[[Floats], Floats] | None = None, where: str = "domain.json"
    ) -> Domain:
        """The domain of a text that `to_json` wrote; anything else is a RunError that names `where` and what is wrong.

        features: the function that the domain's features were, if they were one; without it `particles` is an error.
        """
        try:
            domain = Domain(**domain_json.read(text))
        except (ValueError, RecursionError, MepolError) as fault:
            raise RunError(f"{where} is not a domain: {str(fault)[:300]}") from fault
        if features is None or not callable(domain.features):
            return domain
        return dataclasses.replace(domain, features=features)


# --- From a live environment ----------------------------------------------------------------------------------------


def _span(low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(high - low)


def _is_width(width: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray((width > 0) & (width < np.inf))


def _widths(
    env: VectorEnv[Any, Any, Any], space: Box, names: tuple[str, ...], features: Features, scaled: bool
) -> tuple[float, ...]:
    if callable(features):
        if scaled:
            raise ConfigError("scale_features is not possible with a function of features: let it scale what it gives")
        seeds: Any = list(range(env.num_envs))
        with guard("reset"):
            starts, _ = env.reset(seed=seeds)
        states = check_observations(starts, (env.num_envs, *space.shape), "reset").astype(np.float64)
        found = features_of(states, np.ones(len(states), dtype=bool), features).shape[1]
        return tuple(1.0 for _ in range(found))
    if not scaled:
        return (1.0,) * len(features)
    widths = _span(space.low, space.high)[list(features)].astype(np.float64)
    for i, width in zip(features, widths, strict=True):
        if not 0 < width < np.inf:
            raise ConfigError(f"feature {names[i]!r} has width {width:g}: scale_features needs bounded features")
    return tuple(float(width) for width in widths)


def _grid(
    space: Box,
    names: tuple[str, ...],
    axes: str,
    low: tuple[float, float] | None,
    high: tuple[float, float] | None,
    bins: tuple[int, int],
) -> Grid | None:
    """The grid of visits. Nobody asked for one, and the range is unknown or there is but one coordinate: None."""
    asked = axes != "0,1" or low or high
    if len(names) < 2 and not asked:
        return None
    chosen = select_features(axes, names)
    if len(chosen) != 2:
        raise ConfigError(f"heatmap_axes = {axes!r} must name two coordinates")
    at = list(chosen)
    low = low or (float(space.low[at[0]]), float(space.low[at[1]]))
    high = high or (float(space.high[at[0]]), float(space.high[at[1]]))
    if not asked and not np.isfinite([*low, *high]).all():
        return None
    return Grid((chosen[0], chosen[1]), (names[chosen[0]], names[chosen[1]]), low, high, bins)


def _box(low: Floats, high: Floats, dtype: str) -> Box:
    """A Box with these ends; those of the widest integers are not exact as floats and stop at what the type holds."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return Box(low.astype(kind), high.astype(kind), dtype=kind)
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    first, last = (
        np.array([least if v < least else most if v > most else int(v) for v in end.tolist()], dtype=kind)
        for end in (low, high)
    )
    return Box(first, last, dtype=kind)

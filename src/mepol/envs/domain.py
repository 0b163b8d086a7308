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
from mepol.algorithm.encoder import RandomEncoder
from mepol.algorithm.pictures import Picture
from mepol.algorithm.symmetry import Symmetry
from mepol.envs import domain_json
from mepol.envs.choices import Choices, choices_of, kind_of, space_of
from mepol.envs.contract import check_spaces
from mepol.envs.coordinates import (
    Absent,
    Features,
    Floats,
    Grid,
    feature_names,
    features_of,
    label_of,
    select_features,
)
from mepol.envs.domain_json import MAX_SIZE
from mepol.envs.finite import leaves_of
from mepol.envs.layout import Asked, lay_out, span
from mepol.envs.pixels import Truth, view_of
from mepol.envs.reachable import reachable_cells
from mepol.envs.survey import Survey
from mepol.envs.symmetries import symmetries_of
from mepol.errors import ConfigError, EnvironmentFault, MepolError, RunError
from mepol.neighbours import Near, Workers, neighbours, places

UNBOUNDED = "actions without bounds are in raw units, as the policy draws them (--log-std sets their spread)"


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
    floor: float = 0.0
    """Distance below which states are one place, in the units of `widths`; 0 where coinciding ones are a fault."""
    notes: tuple[str, ...] = ()
    """What was chosen for the user, one sentence each; not stored."""
    choices: Choices | None = None
    """How many values each column of an action has, 0 .. n-1, where actions are discrete."""
    picture: Picture | None = None
    """What observations are rows of, where they are pictures; then the features are an encoder's."""
    truth: Truth | None = None
    """The true state behind pictures, where the environment tells it: what the grid is over."""
    tabular: bool = False
    """Whether states are finitely many and counted: then the entropy is that of the visits to each, of no density."""

    symmetries: tuple[Symmetry, ...] = ()
    """Mirrors of states and actions that leave the environment as it is, where it names any."""

    @staticmethod
    def of(
        env: VectorEnv[Any, Any, Any],
        *,
        name: str,
        survey: Survey | None = None,
        encoder_seed: int | None = None,
        **asked: Any,
    ) -> Domain:
        """Read the spaces and resolve names, features and grid; every fault is named before anything is written.

        asked: the fields of `Asked` (layout.py). survey: what random play showed, where something is left to it.
        encoder_seed: of the encoder whose embedding the features are, where the environment shows pictures.
        Features given as a function are tried on the start states of one reset, which tells how many they are.
        """
        space, actions = check_spaces(env)
        if max(space.shape[0], actions.shape[0]) > MAX_SIZE:
            raise EnvironmentFault(
                f"the environment has {space.shape[0]} observed coordinates and {actions.shape[0]} actions, "
                f"and mepol takes at most {MAX_SIZE} of each"
            )
        ends = (actions.low, actions.high) if isinstance(actions, Box) else (actions.start, actions.nvec - 1)
        picture, truth = view_of(env)
        if picture is None:
            names = feature_names(env, space.shape[0])
        else:
            names = tuple(str(i) for i in range(picture.size))
            asked["features"] = RandomEncoder(picture, encoder_seed or 0)
        leaves = leaves_of(env, space) if picture is None else ()
        layout = lay_out(env, space, names, Asked(**asked), survey, _over(space, names, picture, truth), leaves)
        if survey is not None and isinstance(actions, Box) and not actions.is_bounded():
            layout = dataclasses.replace(layout, notes=(*layout.notes, UNBOUNDED))
        return Domain(
            env=name,
            low=space.low.astype(np.float64),
            high=space.high.astype(np.float64),
            action_low=ends[0].astype(np.float64),
            action_high=ends[1].astype(np.float64),
            names=names,
            reachable=None if layout.grid is None else reachable_cells(env, layout.grid),
            dtypes=(str(space.dtype), str(actions.dtype)),
            choices=choices_of(actions),
            picture=picture,
            truth=truth,
            symmetries=() if picture else symmetries_of(env, space.shape[0], actions.shape[0]),
            **vars(layout),
        )

    @property
    def places(self) -> tuple[tuple[str, ...], Box]:
        """Names and space of the coordinates that grids are over; none of a picture whose true state nobody tells."""
        return _over(self.space, self.names, self.picture, self.truth)

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
        return np.asarray(_is_width(span(self.low, self.high)))

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
        return None if callable(self.features) else [label_of(feature, self.names) for feature in self.features]

    def of_features(self, text: str | None) -> Domain:
        """The same with the entropy of other coordinates (as `--features` names them), in raw units; None: as it is."""
        if text is None:
            return self
        if self.picture is not None:
            raise ConfigError(f"features = {text!r} is not possible: of pictures the entropy is an encoder's")
        chosen = select_features(text, self.names)
        return dataclasses.replace(self, features=chosen, widths=(1.0,) * len(chosen), ceiling=None, floor=0.0)

    def particles(self, batch: Batch) -> Floats:
        """(N, D) the entropy features of s_1 .. s_length of each trajectory in turn (s_0 is not a particle)."""
        return features_of(batch.states[:, 1:], batch.visited(), self.features)

    def search(self, batch: Batch, k: int, *, eps: float = 0.0, workers: Workers = -1) -> Near:
        """Neighbours of a batch's particles in the domain's units of distance; volumes in raw units whatever these."""
        return self.near(self.particles(batch), k, eps=eps, workers=workers)

    def near(self, points: Floats, k: int, *, eps: float = 0.0, workers: Workers = -1) -> Near:
        """The same of features (N, D). States that are counted have no volume: eps adds nothing to it."""
        if self.tabular:
            return places(points, k)
        widths = np.array(self.widths)
        near = neighbours(points / widths, k, eps=eps, workers=workers, names=self.feature_labels, floor=self.floor)
        return dataclasses.replace(near, log_volume=near.log_volume + np.log(widths).sum())

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
        if features is None or not isinstance(domain.features, Absent):
            return domain
        return dataclasses.replace(domain, features=features)


# --- From a live environment ----------------------------------------------------------------------------------------


def _over(
    space: Box, names: tuple[str, ...], picture: Picture | None, truth: Truth | None
) -> tuple[tuple[str, ...], Box]:
    if picture is None:
        return names, space
    return ((), Box(0.0, 1.0, (0,))) if truth is None else (truth.names, truth.space)


def _is_width(width: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray((width > 0) & (width < np.inf))


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

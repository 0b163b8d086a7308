"""One protocol for whatever explores: fresh trajectories of it, and every measure of what they cover."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mepol.envs.make import Domain, closing, env_of
from mepol.envs.reachable import reachable_cells
from mepol.errors import ConfigError
from mepol.evaluation.horizon import HorizonRow, Mixing, horizon_curve, mixing_time
from mepol.evaluation.measures import CellMeasures, Evaluation, measure, measure_cells
from mepol.evaluation.pairs import pair_grid
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import check_fit
from mepol.sampling.actors import Explorer, as_actor
from mepol.sampling.collect import collect


@dataclass(frozen=True)
class Protocol:
    """What is measured, on how many fresh trajectories."""

    trajectories: int = 100
    """Fresh trajectories (M)."""
    k: int | None = None
    """Neighbours of every entropy estimate; by default the run's."""
    pairs: tuple[str, ...] = ()
    """Further pairs of coordinates for discrete entropies: `x,z` or `x:-12:12:40,z:0:2:20`."""
    horizons: tuple[int, ...] = ()
    """Testing horizons h of H(d_h) and H(d̄_h); they may lie beyond the run's T."""
    mixing_threshold: float = 0.0
    """Threshold of the mixing time; 0 does not estimate it."""

    def __post_init__(self) -> None:
        if self.trajectories < 1:
            raise ConfigError(f"trajectories = {self.trajectories} is not possible: it must be at least 1")
        if self.k is not None and self.k < 1:
            raise ConfigError(f"k = {self.k} is not possible: it must be at least 1")
        if any(h < 1 for h in self.horizons):
            raise ConfigError(f"horizons = {self.horizons} are not possible: each must be at least 1")


@dataclass(frozen=True)
class Assessment:
    """Every measure of one explorer."""

    evaluation: Evaluation
    pairs: dict[str, CellMeasures] = field(default_factory=dict)
    horizons: tuple[HorizonRow, ...] = ()
    mixing: Mixing | None = None


def assess(
    explorer: Explorer, config: ExploreConfig, protocol: Protocol, *, seed: np.random.SeedSequence
) -> Assessment:
    """Measure `explorer` in the environment of `config`, with its T, features, grid and (unless given) k.

    explorer: a policy, a mixture, or a function of observations (M, S) that gives actions (M, A).
    The first T steps of each trajectory give the index and the cells; all steps give the curves over h.
    """
    k, eps = protocol.k or config.ascent.k, config.ascent.eps
    steps = max(config.horizon, *protocol.horizons, 1)
    actor = as_actor(explorer)
    with closing(env_of(config, protocol.trajectories), config.machine.env_time_limit) as env:
        domain = Domain.of(env, config)
        check_fit(actor, domain, config)
        grids = {text: pair_grid(text, domain.names, domain.space, domain.grid) for text in protocol.pairs}
        masks = {text: reachable_cells(env, grid) for text, grid in grids.items()}
        mask = None if domain.grid is None else reachable_cells(env, domain.grid)
        if protocol.mixing_threshold and domain.grid is None:
            raise ConfigError("mixing_threshold needs a grid: give heatmap_low and heatmap_high")
        whole = collect(actor, env, steps, seed=seed, time_limit=config.machine.env_time_limit)
    batch = whole.first(config.horizon)
    threshold, grid = protocol.mixing_threshold, domain.grid
    return Assessment(
        evaluation=measure(batch, features=domain.features, k=k, eps=eps, grid=grid, reachable=mask),
        pairs={text: measure_cells(batch, grids[text], masks[text]) for text in grids},
        horizons=tuple(horizon_curve(whole, protocol.horizons, features=domain.features, k=k, eps=eps)),
        mixing=mixing_time(whole, grid, threshold=threshold) if threshold and grid is not None else None,
    )

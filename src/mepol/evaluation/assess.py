"""One verb for whatever explores: fresh trajectories of it, and every measure of what they cover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from mepol.algorithm.batch import Batch
from mepol.envs.coordinates import pair_grid
from mepol.envs.domain import Domain
from mepol.envs.reachable import reachable_cells
from mepol.errors import ConfigError
from mepol.evaluation.horizon import HorizonRow, Mixing, horizon_curve, mixing_time
from mepol.evaluation.measures import CellMeasures, Evaluation, measure_cells, measure_states
from mepol.neighbours import Workers
from mepol.sampling.actors import Explorer, as_actor, check_fit
from mepol.sampling.collect import Actor, collect
from mepol.settings import require


@dataclass(frozen=True)
class Protocol:
    """What is measured, on how many fresh trajectories."""

    horizon: int
    """T, steps of a trajectory that the index and the cells rest on."""
    k: int
    """Neighbours of every entropy estimate."""
    eps: float = 0.0
    """Volume added to every neighbour ball."""
    discount: float = 1.0
    """gamma of the states in the index: the one after t steps counts gamma^t."""
    trajectories: int = 100
    """Fresh trajectories (M)."""
    pairs: tuple[str, ...] = ()
    """Further pairs of coordinates for discrete entropies: `x,z` or `x:-12:12:40,z:0:2:20`."""
    horizons: tuple[int, ...] = ()
    """Testing horizons h of H(d_h) and H(d̄_h); they may lie beyond T."""
    mixing_threshold: float = 0.0
    """Threshold of the mixing time; 0 does not estimate it."""
    workers: Workers = -1
    """Threads of the neighbour search, -1 for all cores, or a pool."""
    time_limit: float = 0.0
    """Seconds that one call of the environment may take; 0 for no limit."""

    def __post_init__(self) -> None:
        for name in ("horizon", "k", "trajectories"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        require(all(h >= 1 for h in self.horizons), "horizons", self.horizons, "at least 1 each")


@dataclass(frozen=True)
class Assessment:
    """Every measure of one explorer."""

    evaluation: Evaluation
    pairs: dict[str, CellMeasures] = field(default_factory=dict)
    horizons: tuple[HorizonRow, ...] = ()
    mixing: Mixing | None = None
    worlds: dict[str, Assessment] = field(default_factory=dict)
    """In each environment by its name, where there are several; the rest is then of all (exploration/worlds)."""


def assess(
    explorer: Explorer,
    env: VectorEnv[Any, Any, Any],
    domain: Domain,
    protocol: Protocol,
    *,
    seed: np.random.SeedSequence,
    draw: Callable[[Actor, int], Batch] | None = None,
) -> Assessment:
    """Measure `explorer` in `env`, a batch of as many as the protocol has trajectories, with the domain's features.

    explorer: a policy, a mixture, or a function of observations (M, S) that gives actions (M, A).
    draw: (actor, steps) -> those trajectories, where they are drawn elsewhere; `env` may then be of any size.
    The first T steps of each trajectory give the index and the cells; all steps give the curves over h.
    """
    actor = as_actor(explorer)
    check_fit(actor, domain.state_dim, domain.action_space, domain.env)
    if draw is None:
        require(env.num_envs == protocol.trajectories, "trajectories", protocol.trajectories, f"env's {env.num_envs}")
    threshold, grid = protocol.mixing_threshold, domain.grid
    if threshold and grid is None:
        raise ConfigError("mixing_threshold needs a grid: give heatmap_low and heatmap_high")
    grids = {text: pair_grid(text, *domain.places, grid) for text in protocol.pairs}
    masks = {text: reachable_cells(env, pair) for text, pair in grids.items()}
    steps = max(protocol.horizon, *protocol.horizons, 1)
    if draw is None:
        whole = collect(actor, env, steps, seed=seed, time_limit=protocol.time_limit)
    else:
        whole = draw(actor, steps)
    batch = whole.first(protocol.horizon)
    search: dict[str, Any] = {"k": protocol.k, "eps": protocol.eps, "workers": protocol.workers}
    return Assessment(
        evaluation=measure_states(batch, domain, discount=protocol.discount, **search),
        pairs={text: measure_cells(batch, grids[text], masks[text]) for text in grids},
        horizons=tuple(horizon_curve(whole, protocol.horizons, features=domain.features, near=domain.near, **search)),
        mixing=mixing_time(whole, grid, threshold=threshold) if threshold and grid is not None else None,
    )

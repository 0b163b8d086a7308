"""Yardsticks of the field, measured as those who use them do, so that numbers can stand side by side.

    metra          48 trajectories of 200 steps, s_0 included: how many squares of side 1 of the plane any entered
               (floor x, floor y), with drawn and with mean actions
single-trial   the mean over trajectories of the entropy of one trajectory's states, nats (Mutti et al. 2022)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mepol.algorithm.batch import Batch
from mepol.envs.coordinates import features_of
from mepol.envs.domain import Domain
from mepol.errors import ConfigError
from mepol.estimators import entropy
from mepol.evaluation.assess import Protocol


@dataclass(frozen=True)
class Yardstick:
    """How many trajectories of how many steps (None: the run's own), and what is read off them."""

    name: str
    trajectories: int
    horizon: int | None
    measure: Callable[[Batch, Domain, Protocol], dict[str, float]]
    also_mean_actions: bool = False


def floor_cells(batch: Batch, axes: tuple[int, ...]) -> int:
    """Distinct squares (floor of each of the coordinates `axes`) among all states of the batch, the starts included."""
    seen = batch.placed[batch.visited(include_start=True)][:, list(axes)]
    return len(np.unique(np.floor(seen), axis=0))


def single_trial_entropy(batch: Batch, domain: Domain, protocol: Protocol) -> float:
    """Mean over trajectories of Eq. 1 on the states of each alone, nats."""
    states, visited = batch.states[:, 1:], batch.visited()
    particles = [
        features_of(states[m : m + 1], visited[m : m + 1], domain.features) for m in range(len(states))
    ]  # (T, D) each
    search = {"eps": protocol.eps, "workers": protocol.workers}
    return float(np.mean([entropy(domain.near(p, protocol.k, **search)) for p in particles]))  # type: ignore[arg-type]


def _plane(domain: Domain) -> tuple[int, ...]:
    """The coordinates of the plane that bodies move in: those of the grid, or the first two features."""
    if domain.grid is not None:
        return domain.grid.axes
    if callable(domain.features):
        raise ConfigError("the yardstick metra needs a plane: give --heatmap-axes and its range when exploring")
    return tuple(feature if isinstance(feature, int) else feature[0] for feature in domain.features[:2])


YARDSTICKS: dict[str, Yardstick] = {
    stick.name: stick
    for stick in (
        Yardstick("metra", 48, 200, lambda b, d, p: {"metra_cells": floor_cells(b, _plane(d))}, also_mean_actions=True),
        Yardstick("single-trial", 100, None, lambda b, d, p: {"single_trial_entropy": single_trial_entropy(b, d, p)}),
    )
}


def find_yardstick(name: str) -> Yardstick:
    """The yardstick called `name`."""
    if name not in YARDSTICKS:
        raise ConfigError(f"no yardstick {name!r}; there are {', '.join(YARDSTICKS)}")
    return YARDSTICKS[name]

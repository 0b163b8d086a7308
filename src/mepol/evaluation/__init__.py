"""Measuring what a policy covers. Each measure is a short function of a batch; nothing here learns."""

from __future__ import annotations

from mepol.envs.reachable import coverage, reachable_cells
from mepol.evaluation.horizon import HorizonRow, Mixing, horizon_curve, mixing_time
from mepol.evaluation.measures import CellMeasures, Evaluation, evaluate, measure, measure_cells
from mepol.evaluation.pairs import pair_grid
from mepol.evaluation.statistics import Interval, iqm_interval, mean_interval
from mepol.evaluation.visits import Grid, discrete_entropy, visit_counts
from mepol.sampling.actors import Explorer, UniformActor, as_actor

__all__ = [
    "CellMeasures",
    "Evaluation",
    "Explorer",
    "Grid",
    "HorizonRow",
    "Interval",
    "Mixing",
    "UniformActor",
    "as_actor",
    "coverage",
    "discrete_entropy",
    "evaluate",
    "horizon_curve",
    "iqm_interval",
    "mean_interval",
    "measure",
    "measure_cells",
    "mixing_time",
    "pair_grid",
    "reachable_cells",
    "visit_counts",
]

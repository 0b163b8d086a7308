"""Measuring what a policy covers. Each measure is a short function of a batch; nothing here learns."""

from __future__ import annotations

from mepol.evaluation.assess import Assessment, Protocol, assess
from mepol.evaluation.horizon import HorizonRow, Mixing, horizon_curve, mixing_time
from mepol.evaluation.measures import CellMeasures, Evaluation, measure_cells, measure_states
from mepol.evaluation.statistics import Interval, iqm_interval, mean_interval
from mepol.evaluation.visits import discrete_entropy, visit_counts

__all__ = [
    "Assessment",
    "CellMeasures",
    "Evaluation",
    "HorizonRow",
    "Interval",
    "Mixing",
    "Protocol",
    "assess",
    "discrete_entropy",
    "horizon_curve",
    "iqm_interval",
    "mean_interval",
    "measure_cells",
    "measure_states",
    "mixing_time",
    "visit_counts",
]

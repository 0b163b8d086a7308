"""Measuring what a policy covers. Each measure is a short function of a batch; nothing here learns."""

from __future__ import annotations

from mepol.evaluate.measure import Evaluation, evaluate
from mepol.evaluate.visits import Grid, discrete_entropy, visit_counts

__all__ = ["Evaluation", "Grid", "discrete_entropy", "evaluate", "visit_counts"]

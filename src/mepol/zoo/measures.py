"""What a card says of a policy: everything measured on fresh trajectories, none of which was used in training."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mepol.algorithm.batch import Batch
from mepol.envs.coordinates import Grid
from mepol.envs.reachable import reachable_cells
from mepol.evaluation.goal_coverage import GoalCoverage, goal_coverage
from mepol.evaluation.statistics import mean_interval
from mepol.run import Run

TRAJECTORIES = 100
"""Fresh ones of the card's numbers, as in the paper."""
REPEATED, REPEATS, CONFIDENCE = 10, 8, 0.999
"""Trajectories of a batch that is drawn again and again, how often, and how surely a further one lies between."""


def measured(run: Run, which: str, tell: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Measures of the policy `which` by name: nats, cells, shares. tell: what is being measured."""
    tell(f"index and discrete entropy on {TRAJECTORIES} trajectories")
    found = run.evaluate(which=which, trajectories=TRAJECTORIES).evaluation
    names = ("index", "discrete_entropy", "pooled_entropy", "cells", "coverage")
    values: dict[str, Any] = {n: v for n in names if (v := getattr(found, n, None)) is not None}
    grid = run.domain.grid
    if grid is not None:
        tell(f"goal coverage on {TRAJECTORIES} trajectories")
        coverage, _ = met_goals(run, which, TRAJECTORIES, 0, lambda _: grid)
        values |= {"goal_hit_rate": coverage.mean_hit_rate, "goals": int(coverage.goals.sum())}
        values |= {"goals_hit": coverage.goals_hit}
        if grid.names == ("x", "y"):  # the yardstick is of bodies on a plane
            tell("METRA's cells")
            values |= run.yardstick("metra", which=which)
    tell(f"index on {REPEATS} batches of {REPEATED} trajectories")
    return values | {"repeat": _repeated(run, which)}


def _repeated(run: Run, which: str) -> dict[str, Any]:
    """The index of small batches, and between which ends that of a further one lies: mean ± t s sqrt(1 + 1/n)."""
    batches = (run.evaluate(which=which, trajectories=REPEATED, seed=seed) for seed in range(1, REPEATS + 1))
    interval = mean_interval([found.evaluation.index for found in batches], CONFIDENCE)
    assert interval.high is not None
    reach = (interval.high - interval.centre) * math.sqrt(REPEATS + 1)
    ends = {"low": interval.centre - reach, "high": interval.centre + reach}
    return {"trajectories": REPEATED, "batches": REPEATS, "confidence": CONFIDENCE, "index": interval.centre, **ends}


def met_goals(
    run: Run, which: str, trajectories: int, seed: int, grid_of: Callable[[Batch], Grid]
) -> tuple[GoalCoverage, Grid]:
    """Roll a run's policy afresh and see which goals it meets: the reachable cells of the grid of the batch."""
    with run.working(trajectories) as env:
        batch = run.rollout(env, which=which, seed=seed)
        grid = grid_of(batch)
        goals = reachable_cells(env, grid, absorb=False)
    return goal_coverage(batch, grid, np.ones(grid.bins, dtype=bool) if goals is None else goals), grid

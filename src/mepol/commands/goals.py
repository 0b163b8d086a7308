"""`mepol goals`: how often and how soon an exploration policy comes by goals all over, before any training."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from mepol.commands.heatmaps import chosen_grid, words
from mepol.commands.terminal import Which, at_least, parse
from mepol.console.screen import stdout
from mepol.envs.coordinates import Grid
from mepol.evaluation.goal_coverage import GoalCoverage
from mepol.figures.goals import draw_goal_coverage
from mepol.run import Run
from mepol.runs.tables import csv_text
from mepol.runs.zoo import require_own
from mepol.zoo.measures import met_goals


@dataclass(frozen=True)
class GoalsArguments:
    """Zero-shot hit rate and time to hit of a run's policy, over goals spread on its grid."""

    run: tyro.conf.Positional[Path]
    """Run directory, of exploration or of fine-tuning."""
    which: Which = "last"
    """Which policy tries."""
    trajectories: int = 100
    """Fresh trajectories, each trying every goal."""
    seed: int = 0
    """Of the fresh trajectories."""
    axes: str = ""
    """Two coordinates that the goals are cells of, `x,y` or `x:-12:12:40,y:-12:12:40`, or one; by default the run's,
    or the first two that its entropy is of. A range that nobody knows is that of the states seen."""
    json: bool = False
    """Print JSON instead of sentences."""


def command(arguments: list[str]) -> None:
    """Measure, print the numbers, and write the map into the run's figures/."""
    parsed = parse(GoalsArguments, arguments, "mepol goals")
    at_least("trajectories", parsed.trajectories, 1)
    at_least("seed", parsed.seed, 0)
    run = Run.open(parsed.run)
    require_own(run.path)  # told before anything is measured
    coverage, grid = measure(run, parsed.which, parsed.trajectories, parsed.seed, parsed.axes)
    figure, table = _write(run, coverage, grid)
    if parsed.json:
        numbers = {
            "hit_rate": coverage.mean_hit_rate,
            "steps_to_hit": None if np.isnan(coverage.mean_steps_to_hit) else coverage.mean_steps_to_hit,
            "goals": int(coverage.goals.sum()),
            "goals_hit": coverage.goals_hit,
            "trajectories": coverage.trajectories,
        }
        stdout.print(json.dumps({"run": str(run.path), **numbers}))
        return
    stdout.print(
        f"zero-shot hit rate {coverage.mean_hit_rate:.3f} over {coverage.goals.sum()} goals "
        f"({coverage.goals_hit} met by some trajectory of {coverage.trajectories}), "
        f"{coverage.mean_steps_to_hit:.0f} of {run.protocol.horizon} steps to a hit"
    )
    if grid != run.domain.grid:
        stdout.print(f"goals are the cells of {words(grid)}: --axes takes this text, to measure others on the same")
    stdout.print(f"map {figure}\ntable {table}")


def measure(run: Run, which: str, trajectories: int, seed: int, axes: str = "") -> tuple[GoalCoverage, Grid]:
    """Roll a run's policy afresh and see which goals it meets: cells of its grid, or of that of `axes`."""
    return met_goals(run, which, trajectories, seed, lambda batch: chosen_grid(run.domain, axes, [batch]))


def _write(run: Run, coverage: GoalCoverage, grid: Grid) -> tuple[Path, Path]:
    """The map as picture and as CSV, one line per goal."""
    centres = [
        low + (np.arange(n) + 0.5) * (high - low) / n
        for low, high, n in zip(grid.low, grid.high, grid.bins, strict=True)
    ]
    rows = []
    for i, j in np.argwhere(coverage.goals):
        steps = coverage.steps_to_hit[i, j]
        place = f"{centres[0][i]:.6g}", f"{centres[1][j]:.6g}"
        rows.append((*place[: grid.shown], f"{coverage.hit_rate[i, j]:.6g}", "" if np.isnan(steps) else f"{steps:.2f}"))
    door = run.directory.door
    door.folder("figures")
    table = door.write_text(
        "figures/goals.csv", csv_text((*grid.names[: grid.shown], "hit_rate", "steps_to_hit"), rows)
    )
    return door.write("figures/goals.png", draw_goal_coverage(coverage, grid)), table

"""`mepol goals`: how often and how soon an exploration policy comes by goals all over, before any training."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from mepol.commands.terminal import at_least, parse, stdout
from mepol.envs.coordinates import Grid
from mepol.envs.make import closing
from mepol.envs.reachable import reachable_cells
from mepol.errors import ConfigError, RunError
from mepol.evaluation.goal_coverage import GoalCoverage, goal_coverage
from mepol.exploration.drive import Stream, stream
from mepol.exploration.environment import domain_of, env_of
from mepol.figures.goals import draw_goal_coverage
from mepol.runs.directory import Run
from mepol.runs.files import write_text
from mepol.sampling.collect import collect


@dataclass(frozen=True)
class GoalsArguments:
    """Zero-shot hit rate and time to hit of a run's newest policy, over goals spread on its grid."""

    run: tyro.conf.Positional[Path]
    """Directory of an exploration run."""
    trajectories: int = 100
    """Fresh trajectories, each trying every goal."""
    seed: int = 0
    """Of the fresh trajectories."""
    json: bool = False
    """Print JSON instead of sentences."""


def command(arguments: list[str]) -> None:
    """Measure, print the numbers, and write the map into the run's figures/."""
    parsed = parse(GoalsArguments, arguments, "mepol goals")
    at_least("trajectories", parsed.trajectories, 1)
    at_least("seed", parsed.seed, 0)
    run = Run.open(parsed.run)
    coverage, grid = measure(run, parsed.trajectories, parsed.seed)
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
        f"{coverage.mean_steps_to_hit:.0f} of {run.config.horizon} steps to a hit"
    )
    stdout.print(f"map {figure}\ntable {table}")


def measure(run: Run, trajectories: int, seed: int) -> tuple[GoalCoverage, Grid]:
    """Roll the run's newest policy afresh and see which goals it meets."""
    config = run.config
    with closing(env_of(config, trajectories), config.machine.env_time_limit) as env:
        grid = Domain.of(env, config).grid
        if grid is None:
            raise ConfigError(f"{run.path} has no grid of goals: its config needs heatmap_low and heatmap_high")
        limit, fresh = config.machine.env_time_limit, stream(seed, Stream.FRESH, 1)
        batch = collect(run.load_policy(), env, config.horizon, seed=fresh, time_limit=limit)
    return goal_coverage(batch, grid, reachable_cells(config.env, grid)), grid


def _write(run: Run, coverage: GoalCoverage, grid: Grid) -> tuple[Path, Path]:
    """The map as picture and as CSV, one line a goal."""
    centres = [
        low + (np.arange(n) + 0.5) * (high - low) / n
        for low, high, n in zip(grid.low, grid.high, grid.bins, strict=True)
    ]
    lines = [f"{grid.names[0]},{grid.names[1]},hit_rate,steps_to_hit\n"]
    for i, j in np.argwhere(coverage.goals):
        steps = coverage.steps_to_hit[i, j]
        shown = "" if np.isnan(steps) else f"{steps:.2f}"
        lines.append(f"{centres[0][i]:.6g},{centres[1][j]:.6g},{coverage.hit_rate[i, j]:.6g},{shown}\n")
    folder = run.path / "figures"
    try:
        folder.mkdir(exist_ok=True)
        write_text(folder / "goals.csv", "".join(lines))
    except OSError as fault:
        raise RunError(f"cannot write {folder / 'goals.csv'}: {fault}") from fault
    return draw_goal_coverage(coverage, grid, folder / "goals.png"), folder / "goals.csv"

"""`mepol animate RUN`: coverage over training as a GIF."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from mepol.commands.terminal import parse, stdout
from mepol.envs.make import closing, make_env
from mepol.errors import ConfigError, RunError
from mepol.exploration.environment import domain_of
from mepol.figures import animate
from mepol.runs.directory import Run


@dataclass(frozen=True)
class AnimateArguments:
    """Show how a run's coverage grows over training, from the visits it stored."""

    run: tyro.conf.Positional[Path]
    """Run directory."""
    seconds: float = 0.4
    """Of each frame; the last stays four times as long."""
    out: Path | None = None
    """File to write; by default RUN/figures/coverage.gif."""


def command(arguments: list[str]) -> None:
    """Draw the animation of one run."""
    parsed = parse(AnimateArguments, arguments, "mepol animate")
    if not 0.02 <= parsed.seconds <= 60:
        raise ConfigError(f"seconds = {parsed.seconds} is not possible: it must be from 0.02 to 60")
    run = Run.open(parsed.run)
    with closing(make_env(run.config.env, 1)) as env:
        grid = domain_of(env, run.config).grid
    if grid is None:
        raise RunError(f"{run.path} has no grid of visits: set heatmap_low and heatmap_high")
    maps = {epoch: run.load_visits(epoch) for epoch in run.evaluated_epochs()}
    path = animate(maps, grid, parsed.out or run.path / "figures" / "coverage.gif", seconds=parsed.seconds)
    stdout.print(f"{len(maps)} frames: {path}")

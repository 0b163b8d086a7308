"""`mepol animate RUN`: coverage over training as a GIF."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from mepol.commands.heatmaps import fresh_maps, words
from mepol.commands.terminal import SomePath, parse
from mepol.console.screen import stdout
from mepol.errors import ConfigError
from mepol.figures.animation import animate
from mepol.run import Run
from mepol.runs.files import write_bytes

TRAJECTORIES = 100
"""Fresh ones of each policy of a run that has stored no visits."""


@dataclass(frozen=True)
class AnimateArguments:
    """Show how a run's coverage grows over training, from the visits it stored.

    A run that has stored none shows its initial, best and last policy on fresh trajectories.
    """

    run: tyro.conf.Positional[Path]
    """Run directory."""
    seconds: float = 0.4
    """Of each frame; the last stays four times as long."""
    out: SomePath = None
    """File to write; by default RUN/figures/coverage.gif."""


def command(arguments: list[str]) -> None:
    """Draw the animation of one run."""
    parsed = parse(AnimateArguments, arguments, "mepol animate")
    if not 0.02 <= parsed.seconds <= 60:
        raise ConfigError(f"seconds = {parsed.seconds} is not possible: it must be from 0.02 to 60")
    run = Run.open(parsed.run)
    grid, directory = run.domain.grid, run.directory
    maps = {turn: directory.load_visits(turn) for turn in directory.evaluated_turns()}
    if grid is None or not maps:
        maps, domain = fresh_maps(run, "", TRAJECTORIES, seed=0)
        grid = domain.grid
        assert grid is not None
        stdout.print(
            f"{run.path} has stored no visits: {words(grid)}, {TRAJECTORIES} fresh trajectories of each policy"
        )
    data = animate(maps, grid, seconds=parsed.seconds, turn=directory.phase.turn)
    if parsed.out is None:
        directory.door.folder("figures")
        path = directory.door.write("figures/coverage.gif", data)
    else:
        path = parsed.out
        write_bytes(path, data)
    stdout.print(f"{len(maps)} frames: {path}")

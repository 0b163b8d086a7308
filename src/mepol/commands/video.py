"""`mepol video RUN`: film a run's policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mepol.commands.terminal import at_least, parse, stdout
from mepol.exploration.drive import Stream, stream
from mepol.exploration.explorers import load_actor
from mepol.figures.video import record
from mepol.runs.directory import Run
from mepol.runs.policies import load_policy


@dataclass(frozen=True)
class VideoArguments:
    """Film a run's policy, side by side with the one it started from."""

    run: tyro.conf.Positional[Path]
    """Run directory."""
    episodes: int = 1
    """Episodes to film."""
    steps: int | None = None
    """Steps an episode; by default the run's horizon."""
    seed: int = 0
    """Of start states and action noise."""
    out: Path | None = None
    """File to write; by default RUN/figures/policy.mp4."""


def command(arguments: list[str]) -> None:
    """Film, under a progress bar."""
    parsed = parse(VideoArguments, arguments, "mepol video")
    at_least("seed", parsed.seed, 0)
    run = Run.open(parsed.run)
    actors = {"after": load_actor(run)}
    if run.initial_policy_path.is_file():
        actors = {"before": load_policy(run.initial_policy_path), **actors}
    columns = (TextColumn("filming"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stdout) as bar:
        task = bar.add_task("frames", total=None)
        path = record(
            actors,
            run.config.env,
            episodes=parsed.episodes,
            horizon=run.config.horizon if parsed.steps is None else parsed.steps,
            seed=stream(parsed.seed, Stream.FILM),
            path=parsed.out or run.path / "figures" / "policy.mp4",
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    stdout.print(f"{' | '.join(actors)}: {path}")

"""`mepol video RUN`: film what a run learnt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mepol.commands.terminal import SomeInt, SomePath, Which, at_least, parse
from mepol.console.screen import stdout
from mepol.run import Run
from mepol.runs.files import output_folder
from mepol.runs.zoo import is_shipped


@dataclass(frozen=True)
class VideoArguments:
    """Film a run's policy, side by side with the one it started from (which a run from scratch has not)."""

    run: tyro.conf.Positional[Path]
    """Run directory, of exploration or of fine-tuning."""
    which: Which = "last"
    """Which policy is filmed."""
    episodes: int = 1
    """Episodes to film."""
    steps: SomeInt = None
    """Steps an episode; by default the run's horizon."""
    seed: int = 0
    """Of start states and action noise."""
    out: SomePath = None
    """File to write, .mp4 or .gif; by default RUN/figures/policy.mp4, for zoo:NAME NAME.mp4 here."""


def command(arguments: list[str]) -> None:
    """Film, under a progress bar."""
    parsed = parse(VideoArguments, arguments, "mepol video")
    at_least("seed", parsed.seed, 0)
    columns = (TextColumn("filming"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    run = Run.open(parsed.run)
    shipped = Path(f"{run.path.name}.mp4") if is_shipped(run.path) else None
    if (out := parsed.out or shipped) is not None:  # told before anything is filmed
        output_folder(out.parent)
    with Progress(*columns, console=stdout) as bar:
        task = bar.add_task("frames", total=None)
        path = run.video(
            out,
            which=parsed.which,
            episodes=parsed.episodes,
            steps=parsed.steps,
            seed=parsed.seed,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    panels = "before | after" if run.directory.policy_path("initial").is_file() else "after"
    stdout.print(f"{panels}: {path}")

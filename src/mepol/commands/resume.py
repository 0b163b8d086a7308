"""`mepol resume RUN`: go on with a run that was stopped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from mepol.commands import explore as shown
from mepol.commands.terminal import parse, resumable
from mepol.exploration.explorers import resume
from mepol.runs.directory import Run


@dataclass(frozen=True)
class ResumeArguments:
    """Continue a run from its last checkpoint; the result equals that of a run never stopped."""

    run: tyro.conf.Positional[Path]
    """Run directory."""
    epochs: int | None = None
    """New length of the run, in epochs; by default the one it was started with."""


def command(arguments: list[str]) -> None:
    """Resume, and show how it goes."""
    parsed = parse(ResumeArguments, arguments, "mepol resume")
    length = parsed.epochs if parsed.epochs is not None else Run.open(parsed.run).config.length
    with resumable(parsed.run, f"mepol resume {parsed.run}"):
        run = shown.with_progress_bar(length, lambda report: resume(parsed.run, epochs=parsed.epochs, report=report))
    shown.print_summary(run)

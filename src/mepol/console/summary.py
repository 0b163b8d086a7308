"""What a finished run of either phase says of itself, and where everything is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mepol.console.progress import number
from mepol.console.screen import stdout
from mepol.figures.summary import summarise
from mepol.runs.directory import RunDirectory

Directory = RunDirectory[Any, Any]


def print_summary(run: Directory) -> None:
    """Draw a finished run's figures, and print what it reached and where they are."""
    SUMMARIES[run.phase.name](run)


def _exploration(run: Directory) -> None:
    summary = summarise(run)
    ceiling = "" if summary.ceiling is None else f" (ceiling {summary.ceiling:.3f})"
    first, best, last = summary.first, summary.best, summary.last
    stdout.print(f"entropy index {first.index:.3f} -> {last.index:.3f} nats{ceiling}, {last.samples} training samples")
    if best.epoch != last.epoch:
        stdout.print(f"best {best.index:.3f} nats at epoch {best.epoch}, kept as best.safetensors (--which best)")
    if first.discrete_entropy is not None:
        stdout.print(
            f"discrete entropy {first.discrete_entropy:.3f} -> {last.discrete_entropy:.3f} nats an episode, "
            f"cells visited {first.cells} -> {last.cells}"
        )
    if first.discrete_entropy is None:
        stdout.print("no heatmap: the first two coordinates are unbounded; give --heatmap-low and --heatmap-high")
    stdout.print(f"run directory {run.path}; figures:")
    for figure in summary.figures:
        stdout.print(f"  {figure}")


def _finetuning(run: Directory) -> None:
    rows = run.rows()
    first, last = rows[0], rows[-1]
    stdout.print(
        f"average return {number(first.average_return)} -> {number(last.average_return)}, "
        f"success rate {number(first.success_rate)} -> {number(last.success_rate)}, {last.samples} samples"
    )
    measured = [row for row in rows if row.average_return is not None]
    best = max(measured, key=lambda row: row.average_return, default=last)
    if measured and best.average_return > (last.average_return or 0.0):
        stdout.print(
            f"best {best.average_return:.3f} at iteration {best.iteration}, kept as best.safetensors (--which best)"
        )
    stdout.print(f"run directory {run.path}")


SUMMARIES: dict[str, Callable[[Directory], None]] = {"explore": _exploration, "finetune": _finetuning}

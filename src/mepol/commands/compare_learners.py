"""`mepol compare` of fine-tuning runs: a table of where they end, and the learning curves of each task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from mepol.console.screen import stdout
from mepol.errors import RunError
from mepol.evaluation.statistics import mean_interval
from mepol.figures.bands import draw_bands
from mepol.finetuning.curves import (
    MEASURES,
    SOLVED,
    Learner,
    curves_csv,
    learners,
    learning_band,
    merged,
    read_curves,
)
from mepol.runs.directory import RunDirectory
from mepol.runs.files import output_folder
from mepol.runs.groups import once
from mepol.runs.text import file_name

LABELS = {
    "average_return": "average return",
    "success_rate": "success rate",
    "steps_to_goal": "steps to the goal, of those that reach it",
}


def show(runs: Sequence[RunDirectory[Any, Any]], tables: Sequence[Path], out: Path | None) -> None:
    """Print the table; with `out`, write curves.csv and a picture a task and measure there.

    tables: of earlier comparisons; where a run and a table have the same seed and start, the run counts.
    """
    fresh = learners(once(runs))
    found = merged([*fresh, *(learner for path in tables for learner in read_curves(path))])
    table = Table("task", "learner", "seeds", "policy", "average return", f"reaches {SOLVED} at")
    table.columns[0].no_wrap = True
    for learner in found:
        table.add_row(*_line(learner))
    stdout.print(table, soft_wrap=False)
    if out is not None:
        for path in write_curves(found, out):
            stdout.print(f"  {path}")


def is_table(path: Path) -> bool:
    """Whether `path` is a curves.csv instead of a run directory."""
    return path.suffix == ".csv"


def _line(learner: Learner) -> tuple[str, ...]:
    """One row of the table; `policy` is the last iteration of the seed that got least far."""
    rows = [row for curve in learner.curves if (row := curve.last) is not None]
    if len(rows) < len(learner.curves):
        missing = len(learner.curves) - len(rows)
        raise RunError(f"{missing} of the runs {learner.task} {learner.name!r} have no finished episode yet")
    mean = mean_interval([row.average_return for row in rows if row.average_return is not None])
    reached = " ".join("-" if curve.solved_at is None else str(curve.solved_at) for curve in learner.curves)
    return learner.task, learner.title, str(len(rows)), str(min(row.iteration for row in rows)), str(mean), reached


def write_curves(found: Sequence[Learner], out: Path) -> list[Path]:
    """curves.csv, and TASK-MEASURE.png of every task and measure."""
    door = output_folder(out)
    paths = [door.write_text("curves.csv", curves_csv(found))]
    for task in dict.fromkeys(learner.task for learner in found):
        mine = [learner for learner in found if learner.task == task]
        for measure in MEASURES:
            bands = {one.title: curve for one in mine if (curve := learning_band(one, measure)) is not None}
            if bands:
                name = f"{file_name(task)}-{measure.replace('_', '-')}.png"  # a stranger's table names the task
                paths.append(door.write(name, draw_bands(bands, title=task, x="iterations", y=LABELS[measure])))
    return paths

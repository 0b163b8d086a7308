"""Fine-tuning runs side by side: learning curves of each task, a band over the seeds of each learner."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mepol.finetune.config import FinetuneConfig, dotted_settings
from mepol.finetune.store import FinetuneRow, FinetuneRun
from mepol.groups import Band, band_of

RANGES = {"average_return": (0.0, 1.0), "success_rate": (0.0, 1.0), "steps_to_goal": (1.0, np.inf)}
"""Measures and the values that they can have."""
MEASURES = tuple(RANGES)
COLUMNS = ("task", "learner", "seed", "iteration", "samples", *MEASURES)
SOLVED = 0.9
"""Average return at which a task counts as learnt."""
_IGNORED = ("task", "seed", "threads", "checkpoint_minutes", "iterations", "stop_return", "stop_after")


@dataclass(frozen=True)
class Learner:
    """Runs of one learner on one task, by seed."""

    task: str
    name: str
    runs: tuple[FinetuneRun, ...]


def learners(runs: Sequence[FinetuneRun]) -> list[Learner]:
    """Runs by task and settings, in order of appearance; a learner is named by its algorithm and its start.

    Settings are added to the name where those two do not tell the learners of a task apart. Explorers that differ only
    in `-seed-N` count as one start.
    """
    found: dict[tuple[str, tuple[Any, ...]], list[FinetuneRun]] = {}
    for run in runs:
        found.setdefault((run.config.task, tuple(_settings(run.config).values())), []).append(run)
    result = []
    for (task, _), members in found.items():
        config = members[0].config
        rivals = [others[0].config for (other, _), others in found.items() if other == task]
        alike = [_settings(c) for c in rivals if _name(c) == _name(config)]
        differing = [k for k, v in _settings(config).items() if any(table[k] != v for table in alike)]
        name = " ".join([_name(config), *(f"{k}={_settings(config)[k]}" for k in differing)])
        result.append(Learner(task, name, tuple(sorted(members, key=lambda run: run.config.seed))))
    return result


def _settings(config: FinetuneConfig) -> dict[str, Any]:
    """What tells learners apart: all settings in use but those of `_IGNORED`."""
    table = {name: value for name, value in dotted_settings(config, config.rooms).items() if name not in _IGNORED}
    return table | {"init": start_name(config.init)}


def _name(config: FinetuneConfig) -> str:
    return f"{config.algo} from {start_name(config.init)}"


def start_name(init: str) -> str:
    """`scratch`, or the explorer's name without its seed."""
    return "scratch" if init == "none" else re.sub(r"-seed-\d+$", "", Path(init).name)


def learning_band(learner: Learner, measure: str) -> Band | None:
    """`measure` against iterations over the learner's seeds.

    A run that ended early because it was solved keeps its last value up to the end of the learner's longest run.
    Student's interval, which is wide with few seeds, is cut where no value can be.
    """
    end = max((len(run.rows()) for run in learner.runs), default=0)
    if (found := band_of([_curve(run, measure, end) for run in learner.runs])) is None:
        return None
    return replace(found, low=np.clip(found.low, *RANGES[measure]), high=np.clip(found.high, *RANGES[measure]))


def _curve(run: FinetuneRun, measure: str, end: int) -> NDArray[np.float64]:
    rows = [(row.iteration, value) for row in run.rows() if (value := getattr(row, measure)) is not None]
    if rows and ended_solved(run):
        rows += [(i, rows[-1][1]) for i in range(rows[-1][0] + 1, end)]
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


def ended_solved(run: FinetuneRun) -> bool:
    """Whether the run was cut short by `stop_return`: it is shorter than asked, and its last row learnt nothing."""
    rows = run.rows()
    return bool(rows) and rows[-1].iteration < run.config.iterations and rows[-1].learn_s is None


def solved_at(run: FinetuneRun) -> int | None:
    """The first iteration whose policy has an average return of SOLVED or more; None if there is none."""
    return next((r.iteration for r in run.rows() if r.average_return is not None and r.average_return >= SOLVED), None)


def last_row(run: FinetuneRun) -> FinetuneRow | None:
    """The newest policy with a finished episode."""
    return next((row for row in reversed(run.rows()) if row.average_return is not None), None)


def curves_csv(found: Sequence[Learner]) -> str:
    """Every row of every run in one table."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for learner in found:
        for run in learner.runs:
            for row in run.rows():
                cells = (_cell(getattr(row, measure)) for measure in MEASURES)
                writer.writerow((learner.task, learner.name, run.config.seed, row.iteration, row.samples, *cells))
    return buffer.getvalue()


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"

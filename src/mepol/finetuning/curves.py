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

from mepol.errors import RunError
from mepol.finetuning.config import FinetuneConfig, dotted_settings
from mepol.finetuning.store import FinetuneRow, FinetuneRun
from mepol.runs.files import read_text
from mepol.runs.groups import Band, band_of
from mepol.runs.machine import MACHINE_SETTINGS

RANGES = {"average_return": (0.0, 1.0), "success_rate": (0.0, 1.0), "steps_to_goal": (1.0, np.inf)}
"""Measures and the values that they can have."""
MEASURES = tuple(RANGES)
COLUMNS = ("task", "learner", "seed", "iteration", "samples", *MEASURES, "ended")
SOLVED = 0.9
"""Average return at which a task counts as learnt."""
MAX_CURVES = 64 * 2**20
"""Bytes of a curves.csv that is read."""
_IGNORED = ("task", "seed", "iterations", "stop_return", "stop_after", *MACHINE_SETTINGS)


@dataclass(frozen=True)
class Curve:
    """What a comparison needs of one run, from its directory or from a table of an earlier comparison."""

    seed: int
    rows: tuple[FinetuneRow, ...]
    solved: bool
    """It was cut short by `stop_return`, and would have gone on as it was."""

    @staticmethod
    def of(run: FinetuneRun) -> Curve:
        """Solved if the run is shorter than asked and its last row learnt nothing."""
        rows = run.rows()
        solved = bool(rows) and rows[-1].iteration < run.config.iterations and rows[-1].learn_s is None
        return Curve(run.config.seed, tuple(rows), solved)

    @property
    def solved_at(self) -> int | None:
        """The first iteration whose policy has an average return of SOLVED or more; None if there is none."""
        found = (r.iteration for r in self.rows if r.average_return is not None and r.average_return >= SOLVED)
        return next(found, None)

    @property
    def last(self) -> FinetuneRow | None:
        """The newest policy with a finished episode."""
        return next((row for row in reversed(self.rows) if row.average_return is not None), None)

    def points(self, measure: str, end: int) -> NDArray[np.float64]:
        """(n, 2) iterations and values; a solved run keeps its last value up to iteration `end` - 1."""
        pairs = [(row.iteration, value) for row in self.rows if (value := getattr(row, measure)) is not None]
        if pairs and self.solved:
            pairs += [(i, pairs[-1][1]) for i in range(pairs[-1][0] + 1, end)]
        return np.array(pairs, dtype=np.float64).reshape(-1, 2)


@dataclass(frozen=True)
class Learner:
    """Curves of one learner on one task, by seed."""

    task: str
    name: str
    curves: tuple[Curve, ...]


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
        curves = sorted((Curve.of(run) for run in members), key=lambda curve: curve.seed)
        result.append(Learner(task, name, tuple(curves)))
    return result


def merged(found: Sequence[Learner]) -> list[Learner]:
    """Learners of one task and name as one; of two curves with the same seed the first stays."""
    table: dict[tuple[str, str], dict[int, Curve]] = {}
    for learner in found:
        mine = table.setdefault((learner.task, learner.name), {})
        for curve in learner.curves:
            mine.setdefault(curve.seed, curve)
    return [Learner(*key, tuple(mine[seed] for seed in sorted(mine))) for key, mine in table.items()]


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

    A curve that ended early because it was solved keeps its last value up to the end of the learner's longest run.
    Student's interval, which is wide with few seeds, is cut where no value can be.
    """
    end = max((len(curve.rows) for curve in learner.curves), default=0)
    if (found := band_of([curve.points(measure, end) for curve in learner.curves])) is None:
        return None
    return replace(found, low=np.clip(found.low, *RANGES[measure]), high=np.clip(found.high, *RANGES[measure]))


# --- curves.csv -----------------------------------------------------------------------------------------------------


def curves_csv(found: Sequence[Learner]) -> str:
    """Every row of every run in one table; `ended` is "solved" in the last row of a curve that was."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for learner in found:
        for curve in learner.curves:
            for row in curve.rows:
                cells = (_cell(getattr(row, measure)) for measure in MEASURES)
                ended = "solved" if curve.solved and row is curve.rows[-1] else ""
                writer.writerow((learner.task, learner.name, curve.seed, row.iteration, row.samples, *cells, ended))
    return buffer.getvalue()


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def read_curves(path: Path) -> list[Learner]:
    """The learners of a table that `curves_csv` wrote; anything else is a RunError with its line."""
    try:
        lines = list(csv.reader(io.StringIO(read_text(path, MAX_CURVES))))
    except (OSError, ValueError, csv.Error) as fault:
        raise RunError(f"cannot read {path}: {fault}") from fault
    if not lines or tuple(lines[0]) != COLUMNS:
        raise RunError(f"{path} is not a table of learning curves: its first line must be {','.join(COLUMNS)}")
    found: dict[tuple[str, str], dict[int, list[FinetuneRow]]] = {}
    solved: set[tuple[str, str, int]] = set()
    for number, cells in enumerate(lines[1:], start=2):
        try:
            task, name, seed, iteration, samples, *measures, ended = cells
            values = {measure: _value(text) for measure, text in zip(MEASURES, measures, strict=True)}
            row = FinetuneRow(int(iteration), int(samples), **values)  # type: ignore[arg-type]
            found.setdefault((task, name), {}).setdefault(int(seed), []).append(row)
        except (ValueError, TypeError) as fault:
            raise RunError(f"{path}, line {number}: {fault}") from fault
        if ended == "solved":
            solved.add((task, name, int(seed)))
    return [
        Learner(*key, tuple(Curve(seed, tuple(rows), (*key, seed) in solved) for seed, rows in sorted(seeds.items())))
        for key, seeds in found.items()
    ]


def _value(text: str) -> float | None:
    value = float(text) if text else None
    if value is not None and not np.isfinite(value):
        raise ValueError(f"{text} is no finite number")
    return value

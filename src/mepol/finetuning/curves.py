"""Fine-tuning runs side by side: learning curves of each task, a band over the seeds of each learner."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mepol.finetuning.config import FinetuneConfig, dotted_settings
from mepol.finetuning.rows import FinetuneRow
from mepol.finetuning.start import explorer_name
from mepol.runs.directory import RunDirectory
from mepol.runs.groups import Band, band_of, start_of
from mepol.runs.machine import MACHINE_SETTINGS
from mepol.runs.start import SCRATCH
from mepol.runs.tables import Table
from mepol.settings import hashable

FinetuneRun = RunDirectory[FinetuneConfig, FinetuneRow]

RANGES = {"average_return": (0.0, 1.0), "success_rate": (0.0, 1.0), "steps_to_goal": (1.0, np.inf)}
"""Measures and the values that they can have where there is a goal; what an environment itself pays has no range."""
MEASURES = tuple(RANGES)
SOLVED = 0.9
"""Average return at which a task counts as learnt."""
_IGNORED = ("task", "seed", "iterations", "stop_return", "stop_after", "k", "eps", *MACHINE_SETTINGS)
"""What tells no learners apart: how long they learn, and how the coverage of their policies is measured on request."""


@dataclass(frozen=True, slots=True)
class CurveRow:
    """One line of a curves.csv."""

    task: str
    learner: str
    seed: int
    iteration: int
    samples: int
    average_return: float | None
    success_rate: float | None
    steps_to_goal: float | None
    ended: str = ""
    start: str = ""
    """A table of an earlier version has none."""


TABLE = Table("curves.csv", CurveRow)


@dataclass(frozen=True)
class Curve:
    """What a comparison needs of one run, from its directory or from a table of an earlier comparison."""

    seed: int
    start: str
    """Name and digest of what it started from: two runs of one seed from two explorers are two curves."""
    rows: tuple[FinetuneRow, ...]
    ended: str = ""
    """`solved` if it was cut short by `stop_return`, and would have gone on as it was; `unfinished` if it was stopped
    on its way, or still is on it."""

    @staticmethod
    def of(run: FinetuneRun) -> Curve:
        """Solved if the run was to end early and is shorter than asked, and its last row learnt nothing."""
        rows, config = run.rows(), run.config
        short = bool(rows) and rows[-1].iteration < config.iterations and config.stop_return is not None
        ended = "unfinished" if not run.is_finished else "solved" if short else ""
        return Curve(config.seed, origin(run), tuple(rows), ended)

    @property
    def solved(self) -> bool:
        """Whether it would have gone on as it was."""
        return self.ended == "solved"

    @property
    def key(self) -> tuple[int, str]:
        """What tells it from the other curves of a learner."""
        return self.seed, self.start

    @property
    def by_goal(self) -> bool:
        """Whether there is a goal to reach: then every policy that was measured has a success rate."""
        return any(row.success_rate is not None for row in self.rows)

    @property
    def solved_at(self) -> int | None:
        """The first iteration whose policy has an average return of SOLVED or more; None if there is none.

        Only a goal can be solved: what an environment itself pays has a scale of its own.
        """
        if not self.by_goal:
            return None
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

    @property
    def title(self) -> str:
        """The name, and how many of its runs have not reached their end."""
        unfinished = sum(curve.ended == "unfinished" for curve in self.curves)
        return self.name if not unfinished else f"{self.name} ({unfinished} unfinished)"


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
        curves = sorted((Curve.of(run) for run in members), key=lambda curve: curve.key)
        result.append(Learner(task, name, tuple(curves)))
    return result


def merged(found: Sequence[Learner]) -> list[Learner]:
    """Learners of one task and name as one; of two curves with the same seed and start the first stays.

    A curve that does not say where it started, of an earlier version's table, counts where no other has its seed.
    """
    table: dict[tuple[str, str], dict[tuple[int, str], Curve]] = {}
    for learner in found:
        mine = table.setdefault((learner.task, learner.name), {})
        for curve in learner.curves:
            mine.setdefault(curve.key, curve)
    for mine in table.values():
        known = {seed for seed, start in mine if start}
        for seed in known:
            mine.pop((seed, ""), None)
    return [Learner(*key, tuple(mine[key] for key in sorted(mine))) for key, mine in table.items()]


def _settings(config: FinetuneConfig) -> dict[str, Any]:
    """What tells learners apart: all settings in use but those of `_IGNORED`."""
    table = {name: value for name, value in dotted_settings(config, config.rooms).items() if name not in _IGNORED}
    return {name: hashable(value) for name, value in table.items()} | {"init": start_name(config.init)}


def _name(config: FinetuneConfig) -> str:
    return f"{config.algo} from {start_name(config.init)}"


def origin(run: FinetuneRun) -> str:
    """`scratch`, or the explorer's name with its seed, and the first digits of its policy's digest."""
    name = explorer_name(run.config.init)
    return name if run.config.init == SCRATCH else f"{name} {start_of(run)[:8]}".strip()


def start_name(init: str) -> str:
    """`scratch`, or the explorer's name without its seed."""
    return re.sub(r"-seed-\d+(?=(-best|-initial)?$)", "", explorer_name(init))


def learning_band(learner: Learner, measure: str) -> Band | None:
    """`measure` against iterations over the learner's seeds.

    A curve that ended early because it was solved keeps its last value up to the end of the learner's longest run.
    The band ends where the first of the others does; before that, a seed counts wherever it has a value.
    Student's interval, which is wide with few seeds, is cut where no value can be.
    """
    begun = [curve for curve in learner.curves if curve.rows]
    end = max((len(curve.rows) for curve in begun), default=0)
    last = min((curve.rows[-1].iteration for curve in begun if not curve.solved), default=end)
    points = [curve.points(measure, end) for curve in begun]
    if (found := band_of([each[each[:, 0] <= last] for each in points], between=False)) is None:
        return None
    if not any(curve.by_goal for curve in begun):
        return found
    return replace(found, low=np.clip(found.low, *RANGES[measure]), high=np.clip(found.high, *RANGES[measure]))


# --- curves.csv -----------------------------------------------------------------------------------------------------


def curves_csv(found: Sequence[Learner]) -> str:
    """Every row of every run in one table; `ended` is "solved" or "unfinished" in the last row of a curve that is."""
    lines = []
    for learner in found:
        for curve in learner.curves:
            for row in curve.rows:
                values = (getattr(row, measure) for measure in MEASURES)
                cells: Any = [None if v is None else float(f"{v:.6g}") for v in values]
                ended = curve.ended if row is curve.rows[-1] else ""
                place: Any = (learner.task, learner.name, curve.seed, row.iteration, row.samples)
                lines.append(TABLE.line(CurveRow(*place, *cells, ended, curve.start)))  # type: ignore[call-arg]
    return TABLE.head + "".join(lines)


def read_curves(path: Path) -> list[Learner]:
    """The learners of a table that `curves_csv` wrote; anything else is a RunError with its line."""
    found: dict[tuple[str, str], dict[tuple[int, str], list[CurveRow]]] = {}
    for row in TABLE.read(path):
        found.setdefault((row.task, row.learner), {}).setdefault((row.seed, row.start), []).append(row)
    return [
        Learner(*key, tuple(_curve(curve, rows) for curve, rows in sorted(curves.items())))
        for key, curves in found.items()
    ]


def _curve(key: tuple[int, str], rows: Sequence[CurveRow]) -> Curve:
    plain = (FinetuneRow(r.iteration, r.samples, *(getattr(r, measure) for measure in MEASURES)) for r in rows)
    ended = rows[-1].ended if rows[-1].ended in ("solved", "unfinished") else ""
    return Curve(*key, tuple(plain), ended)

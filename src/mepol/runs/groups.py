"""Runs that differ in nothing but their seed belong together; what the groups differ in is their name.

A run counts once: the same directory named twice, or a copy of it, is left out with a warning. A run that has not
reached its end is marked wherever its numbers are shown.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mepol.errors import MepolWarning, PolicyFileError
from mepol.evaluation.statistics import Interval, iqm_interval, mean_interval
from mepol.runs.directory import RunDirectory
from mepol.runs.machine import MACHINE_SETTINGS
from mepol.runs.tensors import read_header
from mepol.settings import flat_settings, hashable

IGNORED = ("seed", *MACHINE_SETTINGS, "ceiling")
"""Settings that change no number, and the seed."""
Run = RunDirectory[Any, Any]


@dataclass(frozen=True)
class Group:
    """Runs of one configuration, by seed."""

    name: str
    runs: tuple[Run, ...]

    @cached_property
    def rows(self) -> tuple[list[Any], ...]:
        """metrics.csv of each run, read once: a stranger's may be long."""
        return tuple(run.rows() for run in self.runs)

    @property
    def unfinished(self) -> int:
        """Runs that have not reached their end."""
        return sum(not run.phase.has_ended(rows) for run, rows in zip(self.runs, self.rows, strict=True))

    @property
    def title(self) -> str:
        """The name, and how many of the runs are still under way."""
        return self.name if not self.unfinished else f"{self.name} ({self.unfinished} unfinished)"


def once(runs: Sequence[Run]) -> list[Run]:
    """`runs` without those that are another one of them: the same settings, seed and start are the same run.

    Of two the one that got further stays.
    """
    kept: dict[tuple[Any, ...], Run] = {}
    for run in runs:
        start = start_of(run)
        names = ("init", "which") if start else ()  # where a start is known, how it was found says nothing more
        settings = tuple((name, value) for name, value in settings_of(run).items() if name not in names)
        key = (run.phase.name, settings, run.config.seed, start)
        known = kept.setdefault(key, run)
        if known is not run:
            same = "the same directory" if known.path.resolve() == run.path.resolve() else "the same run"
            warnings.warn(f"{run.path} counts once: {known.path} is {same}", MepolWarning, stacklevel=2)
            kept[key] = max(known, run, key=lambda one: len(one.rows()))
    return list(kept.values())


def start_of(run: Run) -> str:
    """Digest of the policy that a run started from; empty where it kept none."""
    path = run.policy_path("initial")
    return read_header(path, PolicyFileError, "a policy from").get("sha256", "") if path.is_file() else ""


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """Runs by configuration, in order of appearance, each group named by the settings that tell it from the others."""
    found: dict[tuple[Any, ...], list[Run]] = {}
    for run in once(runs):
        found.setdefault(tuple(settings_of(run).values()), []).append(run)
    names = labels([settings_of(members[0]) for members in found.values()])
    return [
        Group(name, tuple(sorted(members, key=lambda run: run.config.seed)))
        for name, members in zip(names, found.values(), strict=True)
    ]


def settings_of(run: Run) -> dict[str, Any]:
    """The settings that decide a run's numbers, as values that can be compared; its length is not among them."""
    lengths = ("epochs", "iterations", "mixture_size")
    table = {name: value for name, value in flat_settings(run.config).items() if name not in (*IGNORED, *lengths)}
    return {name: str(sorted(v.items())) if isinstance(v, dict) else hashable(v) for name, v in table.items()}


_WHO, _WHERE = ("explorer", "algo"), ("env", "task")
WHO_AND_WHERE = (*_WHO, *_WHERE)
MOST_SHOWN = 4  # settings in a label
MOST_LETTERS = 40  # of one value in it


def differing(tables: Sequence[dict[str, Any]]) -> list[str]:
    """Settings that are not the same in all of `tables` that have them; runs of two phases have other ones each."""
    known = dict.fromkeys(name for table in tables for name in table)
    return [name for name in known if len({table[name] for table in tables if name in table}) > 1]


def labels(tables: Sequence[dict[str, Any]]) -> list[str]:
    """A short name for each of `tables` of settings, no two alike: who explores or learns, and what it differs in.

    Environment or task come first where they differ. Of more than MOST_SHOWN settings that differ only as many are
    named as tell the tables apart, those first that tell most; what still looks alike, because it differs behind
    what is cut, is numbered.
    """
    others = differing(tables)
    heads = [_head(table, bool({*_WHERE} & {*others})) for table in tables]
    shown = [name for name in others if name not in WHO_AND_WHERE]
    if len(shown) > MOST_SHOWN:
        shown = _telling(tables, heads, shown)
    names = [" ".join([head, *_pairs(table, shown)]) for head, table in zip(heads, tables, strict=True)]
    places = [names[:i].count(name) + 1 for i, name in enumerate(names)]
    return [f"{name} #{n}" if names.count(name) > 1 else name for name, n in zip(names, places, strict=True)]


def _head(table: dict[str, Any], with_place: bool) -> str:
    who = next((str(table[name]) for name in _WHO if name in table), "mepol")
    where = next((table[name] for name in _WHERE if table.get(name)), "")
    return f"{where} {who}" if with_place else who


def _telling(tables: Sequence[dict[str, Any]], heads: Sequence[str], names: Sequence[str]) -> list[str]:
    """As few of `names` as tell the tables apart, beside their heads, in the order of `names`."""
    chosen: list[str] = []

    def kinds(more: Sequence[str]) -> int:
        return len({(head, *_pairs(table, more)) for head, table in zip(heads, tables, strict=True)})

    while kinds(chosen) < kinds([*chosen, *names]):
        chosen.append(max(names, key=lambda name: kinds([*chosen, name])))
    return [name for name in names if name in chosen]


def _pairs(table: dict[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{name}={_short(table[name])}" for name in names if name in table)


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return "x".join(str(item) for item in value)
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 3]}..."


# --- Measures over seeds ------------------------------------------------------------------------------------------

MEASURES = ("index", "discrete_entropy", "pooled_entropy", "cells")


@dataclass(frozen=True)
class GroupMeasure:
    """One measure of a group: Student's interval around the mean, and the bootstrap's around the IQM."""

    measure: str
    mean: Interval
    iqm: Interval


def last_measured(rows: Sequence[Any]) -> Any:
    """The last evaluated policy in a run's rows, or None."""
    return next((row for row in reversed(rows) if row.index is not None), None)


def aggregate(rows: Sequence[dict[str, Any]], measures: Sequence[str] = MEASURES) -> list[GroupMeasure]:
    """Intervals over `rows`, one a seed, of each measure that all of them have."""
    result = []
    for name in measures:
        values = [row[name] for row in rows if row.get(name) is not None]
        if values and len(values) == len(rows):
            result.append(GroupMeasure(name, mean_interval(values), iqm_interval(values)))
    return result


@dataclass(frozen=True)
class Band:
    """A measure against training samples: mean over the group's seeds with its 95 % t interval."""

    x: NDArray[np.float64]
    centre: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n: int


def band(group: Group, measure: str = "index", *, against: str = "samples") -> Band | None:
    """The evaluations of `group`, seed by seed on common points of `against` (samples or epoch).

    Seeds whose trajectories ended early reach an epoch with other samples: all are read off, by straight lines
    between evaluations, at the points of the seed that got least far. None when nothing was measured.
    """
    return band_of([_curve(rows, measure, against) for rows in group.rows])


def band_of(curves: Sequence[NDArray[np.float64]], *, between: bool = True) -> Band | None:
    """The band of curves (points, 2), one a seed; empty ones do not count. None where there is none.

    between: read each off by straight lines between its points, at those of the one that ends first. Otherwise at all
    points of all, each seed only where it has one. Nowhere is a value taken from beyond a curve's own ends.
    """
    curves = [c for c in curves if len(c)]
    if not curves:
        return None
    x = min(curves, key=lambda c: c[-1, 0])[:, 0] if between else np.unique(np.concatenate([c[:, 0] for c in curves]))
    values = np.stack(
        [(_between if between else _at)(c, x) for c in curves]
    )  # (seeds, points), NaN where there is none
    intervals = [mean_interval(column[np.isfinite(column)].tolist()) for column in values.T]
    return Band(
        x,
        np.array([i.centre for i in intervals]),
        np.array([i.centre if i.low is None else i.low for i in intervals]),
        np.array([i.centre if i.high is None else i.high for i in intervals]),
        len(curves),
    )


def _between(curve: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.interp(x, curve[:, 0], curve[:, 1], left=np.nan, right=np.nan)


def _at(curve: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
    found = np.full(len(x), np.nan)
    found[np.searchsorted(x, curve[:, 0])] = curve[:, 1]
    return found


def _curve(rows: Sequence[Any], measure: str, against: str) -> NDArray[np.float64]:
    pairs = [(getattr(row, against), getattr(row, measure)) for row in rows]
    return np.array([pair for pair in pairs if pair[1] is not None], dtype=np.float64).reshape(-1, 2)

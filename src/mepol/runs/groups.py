"""Runs that differ in nothing but their seed belong together; what the groups differ in is their name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mepol.evaluation.statistics import Interval, iqm_interval, mean_interval
from mepol.runs.directory import MetricsRow, Run
from mepol.runs.machine import MACHINE_SETTINGS
from mepol.settings import flat_settings, hashable

IGNORED = ("seed", "ceiling", *MACHINE_SETTINGS)
"""Settings that change no number, and the seed."""


@dataclass(frozen=True)
class Group:
    """Runs of one configuration, by seed."""

    name: str
    runs: tuple[Run, ...]


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """Runs by configuration, in order of appearance, each group named by the settings that tell it from the others."""
    found: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        settings = _settings(run)
        found.setdefault(tuple(settings.items()), []).append(run)
    tables = [_settings(members[0]) for members in found.values()]
    every = dict.fromkeys(name for table in tables for name in table)  # an explorer may have settings of its own
    differing = [name for name in every if len({table[name] for table in tables if name in table}) > 1]
    shown = [name for name in differing if name not in ("env", "explorer")]
    names = [_name(table, differing, shown) for table in tables]
    return [
        Group(name, tuple(sorted(members, key=lambda run: run.config.seed)))
        for name, members in zip(names, found.values(), strict=True)
    ]


def _settings(run: Run) -> dict[str, Any]:
    return {name: hashable(value) for name, value in flat_settings(run.config).items() if name not in IGNORED}


def _name(table: dict[str, Any], differing: list[str], shown: list[str]) -> str:
    """`explorer`, with the environment where it differs and every other setting that does."""
    head = str(table.get("explorer", "mepol"))
    if "env" in differing:
        head = f"{table['env']} {head}"
    own = [name for name in shown if name in table]
    rest = [f"{name}={_short(table[name])}" for name in own[:4]]
    return " ".join([head, *rest, *(["..."] if len(own) > 4 else [])])


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return "x".join(str(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


# --- Measures over seeds ------------------------------------------------------------------------------------------

MEASURES = ("index", "discrete_entropy", "pooled_entropy", "cells")


@dataclass(frozen=True)
class GroupMeasure:
    """One measure of a group: Student's interval around the mean, and the bootstrap's around the IQM."""

    measure: str
    mean: Interval
    iqm: Interval


def last_measured(run: Run) -> MetricsRow | None:
    """The run's last evaluated policy, or None."""
    return next((row for row in reversed(run.rows()) if row.index is not None), None)


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
    return band_of([_curve(run, measure, against) for run in group.runs])


def band_of(curves: Sequence[NDArray[np.float64]]) -> Band | None:
    """The band of curves (points, 2), one a seed, at the points of the one that ends first; empty ones do not count."""
    curves = [c for c in curves if len(c)]
    if not curves:
        return None
    x = min(curves, key=lambda c: c[-1, 0])[:, 0]
    values = np.stack([np.interp(x, c[:, 0], c[:, 1]) for c in curves])  # (seeds, points)
    intervals = [mean_interval(column.tolist()) for column in values.T]
    ends: Callable[[float | None, float], float] = lambda end, centre: centre if end is None else end  # noqa: E731
    return Band(
        x,
        np.array([i.centre for i in intervals]),
        np.array([ends(i.low, i.centre) for i in intervals]),
        np.array([ends(i.high, i.centre) for i in intervals]),
        len(curves),
    )


def _curve(run: Run, measure: str, against: str) -> NDArray[np.float64]:
    rows = [(getattr(row, against), getattr(row, measure)) for row in run.rows()]
    return np.array([pair for pair in rows if pair[1] is not None], dtype=np.float64).reshape(-1, 2)

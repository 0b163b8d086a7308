"""`mepol compare RUN...`: runs side by side, from what they wrote; nothing is sampled again, no environment is made."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro
from numpy.typing import NDArray
from rich.table import Table

from mepol.commands import compare_learners
from mepol.commands.terminal import SomePath, at_least, parse
from mepol.console.screen import stdout
from mepol.envs.reachable import coverage
from mepol.errors import ConfigError, EnvironmentFault, MepolError, MepolWarning, RunError
from mepol.figures.bands import draw_bands
from mepol.runs.alike import alike
from mepol.runs.directory import RunDirectory
from mepol.runs.domain import load_domain
from mepol.runs.files import output_folder
from mepol.runs.groups import (
    MEASURES,
    WHO_AND_WHERE,
    Group,
    GroupMeasure,
    aggregate,
    band,
    differing,
    group_runs,
    last_measured,
    settings_of,
)
from mepol.runs.tables import csv_text

Run = RunDirectory[Any, Any]
LABELS = {
    "index": "entropy index (nats)",
    "discrete_entropy": "discrete entropy an episode (nats)",
    "pooled_entropy": "pooled discrete entropy (nats)",
    "cells": "cells visited",
}
AGAINST = {"samples": "training samples (environment steps)", "epoch": "epochs"}
COLUMNS = ("runs", "seeds", "samples", "measure", "mean", "mean_low", "mean_high", "iqm", "iqm_low", "iqm_high")


@dataclass(frozen=True)
class CompareArguments:
    """Compare explorations, or fine-tuning runs, at their end and along their training.

    Seeds of one configuration share a band.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories; of fine-tuning runs also the curves.csv of an earlier comparison, which is taken in."""
    out: SomePath = None
    """Directory for compare.csv, curves.csv and one picture a measure; without it only the table is printed."""
    against: Literal["samples", "epoch"] = "samples"
    """What the pictures' curves are drawn over; a study of the batch size reads differently over each."""
    anyway: bool = False
    """Show runs of different environments or features side by side."""


def command(arguments: list[str]) -> None:
    """Print the table; with `--out`, write it as CSV with the figures."""
    parsed = parse(CompareArguments, arguments, "mepol compare")
    at_least("runs", len(parsed.runs), 1)
    tables = [path for path in parsed.runs if compare_learners.is_table(path)]
    runs = [RunDirectory.open(path) for path in parsed.runs if path not in tables]
    phases = {run.phase.name for run in runs} | ({"finetune"} if tables else set())
    if len(phases) > 1:
        raise ConfigError("explorations and fine-tuning runs have no measure in common: compare each kind by itself")
    if phases == {"finetune"}:
        compare_learners.show(runs, tables, parsed.out)
        return
    measured = alike(runs)
    if not parsed.anyway:
        measured.require_one_thing()
    groups = group_runs(runs)
    rows = [(group, samples_of(group), measure) for group in groups for measure in final_measures(group)]
    table = Table("runs", "seeds", "samples", "measure", "mean (95 % t)", "IQM (95 % bootstrap)")
    for group, samples, m in rows:
        iqm = f"{m.iqm.centre:.3f}" + ("" if m.iqm.low is None else f" [{m.iqm.low:.3f}, {m.iqm.high:.3f}]")
        table.add_row(group.title, str(m.mean.n), str(samples), m.measure, str(m.mean), iqm)
    stdout.print(table, soft_wrap=False)
    if measured.warning:
        stdout.print(measured.warning)
    if hidden := not_named(groups):
        stdout.print(f"besides what their names say, these runs differ in {', '.join(hidden)}")
    if parsed.out is not None:
        for path in write_comparison(groups, parsed.out, against=parsed.against):
            stdout.print(f"  {path}")


def not_named(groups: Sequence[Group]) -> list[str]:
    """Settings in which the groups differ and which their names do not say."""
    others = differing([settings_of(group.runs[0]) for group in groups])
    return [name for name in others if name not in WHO_AND_WHERE and not any(f" {name}=" in g.name for g in groups)]


def final_measures(group: Group) -> list[GroupMeasure]:
    """Intervals over the group's seeds of the last evaluation of each, with the coverage of its stored visits."""
    rows = [row for rows in group.rows if (row := last_measured(rows)) is not None]
    if len(rows) < len(group.runs):
        raise RunError(f"{len(group.runs) - len(rows)} of the runs {group.name!r} have no evaluated policy yet")
    mask = _reachable(group.runs[0])
    return aggregate(
        [
            {**dataclasses.asdict(row), "coverage": _coverage(run, row.epoch, mask)}
            for run, row in zip(group.runs, rows, strict=True)
        ],
        (*MEASURES, "coverage"),
    )


def _reachable(run: Run) -> NDArray[np.bool_] | None:
    """(bins_0, bins_1) cells of the run's grid that can be reached; None where nobody knows."""
    try:
        return load_domain(run).reachable
    except EnvironmentFault:  # a run that did not store it, whose environment is not installed here
        return None


def _ceiling(run: Run) -> float | None:
    """Highest index that there is, of the run's domain, or where that cannot be had of its settings: only a line."""
    try:
        return load_domain(run).ceiling
    except MepolError:
        own: float | None = run.config.ceiling
        return own


def _coverage(run: Run, epoch: int, mask: NDArray[np.bool_] | None) -> float | None:
    """Share of the reachable cells in the visits that the run stored at `epoch`; a damaged table is only named."""
    if mask is None or epoch not in run.evaluated_turns():
        return None
    try:
        visits = run.load_visits(epoch)
    except RunError as fault:
        warnings.warn(f"{fault}; its coverage is left out", MepolWarning, stacklevel=2)
        return None
    return coverage(visits, mask) if visits.shape == mask.shape else None


def samples_of(group: Group) -> int:
    """Training samples of the seed that got least far."""
    return min((row.samples for rows in group.rows if (row := last_measured(rows)) is not None), default=0)


def comparison_csv(groups: Sequence[Group]) -> str:
    """One line per group and measure."""
    rows = []
    for group in groups:
        for m in final_measures(group):
            ends = (m.mean.centre, m.mean.low, m.mean.high, m.iqm.centre, m.iqm.low, m.iqm.high)
            rows.append((group.title, m.mean.n, samples_of(group), m.measure, *map(_cell, ends)))
    return csv_text(COLUMNS, rows)


def curves_csv(groups: Sequence[Group]) -> str:
    """One line per group, seed and evaluated epoch."""
    rows = (
        (group.name, run.config.seed, row.epoch, row.samples, *(_cell(getattr(row, measure)) for measure in MEASURES))
        for group in groups
        for run, turns in zip(group.runs, group.rows, strict=True)
        for row in turns
        if row.index is not None
    )
    return csv_text(("runs", "seed", "epoch", "samples", *MEASURES), rows)


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.9g}"


def write_comparison(
    groups: Sequence[Group], out: Path, *, against: Literal["samples", "epoch"] = "samples"
) -> list[Path]:
    """compare.csv, curves.csv and a figure of each measure against training samples, or epochs."""
    texts = {"compare.csv": comparison_csv(groups), "curves.csv": curves_csv(groups)}
    door = output_folder(out)
    paths = [door.write_text(name, text) for name, text in texts.items()]
    envs = sorted({run.config.env for group in groups for run in group.runs})
    ceilings = {_ceiling(run) for group in groups for run in group.runs}
    for measure in MEASURES:
        bands = {group.title: found for group in groups if (found := band(group, measure, against=against)) is not None}
        if bands:
            ceiling = next(iter(ceilings)) if measure == "index" and len(ceilings) == 1 else None
            x, y = AGAINST[against], LABELS[measure]
            picture = draw_bands(bands, title=", ".join(envs), x=x, y=y, ceiling=ceiling)
            paths.append(door.write(f"{measure}.png", picture))
    return paths

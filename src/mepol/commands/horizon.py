"""`mepol horizon RUN...`: h-step and average entropy of trained policies over the testing horizon h."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from mepol.commands.terminal import SomeFloat, SomeInt, SomePath, Which, at_least, parse
from mepol.console.screen import stdout
from mepol.errors import CoincidentParticlesError, MepolWarning, RunError
from mepol.evaluation.horizon import HorizonRow
from mepol.evaluation.statistics import mean_interval
from mepol.figures.horizon import draw_horizons
from mepol.run import Run
from mepol.runs.directory import RunDirectory
from mepol.runs.files import output_folder, require_place
from mepol.runs.groups import Band, group_runs
from mepol.runs.tables import csv_text

Curves = dict[str, list[tuple[RunDirectory[Any, Any], tuple[HorizonRow, ...]]]]
"""Per group, each run with its rows."""
EPS = 1e-4
"""Volume added to every neighbour ball where particles coincide: GridWorld's, a millionth of its area."""


@dataclass(frozen=True)
class HorizonArguments:
    """Measure policies over testing horizons h on fresh trajectories; seeds of one configuration share a band."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories, of exploration or of fine-tuning."""
    which: Which = "last"
    """Which policy of each is measured."""
    until: int = 2000
    """Longest testing horizon, steps."""
    points: int = 20
    """Testing horizons, evenly spaced up to it."""
    trajectories: int = 500
    """Fresh trajectories per run: H(d_h) rests on one state of each."""
    k: SomeInt = 4
    """Neighbours of both estimates, well below the trajectories; 4 by default."""
    eps: SomeFloat = None
    """Volume added to every neighbour ball, for domains whose walls stop several agents in one place; by default the
    run's own, and 1e-4 for a run whose particles coincide."""
    seed: int = 0
    """Of the fresh trajectories."""
    out: SomePath = None
    """New directory for horizon.csv and horizon.png; by default horizon, or horizon-2 and so on where that is there."""


def command(arguments: list[str]) -> None:
    """Measure, then write the CSV and the figure drawn from it."""
    parsed = parse(HorizonArguments, arguments, "mepol horizon")
    for name in ("until", "points", "trajectories"):
        at_least(name, getattr(parsed, name), 1)
    at_least("runs", len(parsed.runs), 1)
    at_least("seed", parsed.seed, 0)
    out = _unused(parsed.out)
    horizons = tuple(sorted({max(1, round(h)) for h in np.linspace(0, parsed.until, parsed.points + 1)[1:]}))
    groups = group_runs([RunDirectory.open(path) for path in parsed.runs])
    curves: Curves = {}
    for group in groups:
        for run in group.runs:
            asked = {"which": parsed.which, "k": parsed.k, "eps": parsed.eps, "horizons": horizons}
            found = _measure(Run(run), parsed.trajectories, parsed.seed, asked)
            curves.setdefault(group.name, []).append((run, found))
            stdout.print(f"{run.path}: H(d_h) {found[-1].step_entropy:.3f}, average {found[-1].average_entropy:.3f}")
    step = {name: _band([rows for _, rows in c], "step_entropy") for name, c in curves.items()}
    average = {name: _band([rows for _, rows in c], "average_entropy") for name, c in curves.items()}
    door = output_folder(out)
    places = ((*run.phase.goals(run.config), *run.phase.names(run.config)) for group in groups for run in group.runs)
    title = ", ".join(sorted({next(filter(None, names), "") for names in places}))
    stdout.print(f"  {door.write_text('horizon.csv', _csv(curves))}")
    stdout.print(f"  {door.write('horizon.png', draw_horizons(step, average, title=title))}")


def _unused(out: Path | None) -> Path:
    """Where the results go: never over those of an earlier command."""
    if out is None:
        names = (Path("horizon" if n == 1 else f"horizon-{n}") for n in count(1))
        out = next(path for path in names if not path.exists())
    if any((out / name).exists() for name in ("horizon.csv", "horizon.png")):
        raise RunError(f"{out} already holds the results of mepol horizon; choose another --out, or remove it")
    require_place(out)
    return out


def _measure(run: Run, trajectories: int, seed: int, asked: dict[str, Any]) -> tuple[HorizonRow, ...]:
    """Both entropies of one run at each horizon; with a small volume where particles coincide and none was asked."""
    try:
        return run.evaluate(trajectories=trajectories, seed=seed, **asked).horizons
    except CoincidentParticlesError as fault:
        if asked["eps"] is not None:
            raise
        text = f"{run.path}: {str(fault).partition(';')[0]}; measured again with --eps {EPS:g} added to every volume"
        warnings.warn(text, MepolWarning, stacklevel=2)
    return run.evaluate(trajectories=trajectories, seed=seed, **{**asked, "eps": EPS}).horizons


def _band(curves: Sequence[Sequence[HorizonRow]], measure: str) -> Band:
    """(seeds) curves on the same horizons -> their mean with its 95 % t interval."""
    intervals = [mean_interval([getattr(row, measure) for row in rows]) for rows in zip(*curves, strict=True)]
    return Band(
        np.array([row.h for row in curves[0]], dtype=np.float64),
        np.array([i.centre for i in intervals]),
        np.array([i.centre if i.low is None else i.low for i in intervals]),
        np.array([i.centre if i.high is None else i.high for i in intervals]),
        len(curves),
    )


def _csv(curves: Curves) -> str:
    columns = ("runs", "seed", "T", "h", "step_entropy", "step_particles", "average_entropy", "average_particles")
    return csv_text(
        columns,
        (
            (name, run.config.seed, run.config.horizon, *(getattr(row, column) for column in columns[3:]))
            for name, members in curves.items()
            for run, rows in members
            for row in rows
        ),
    )

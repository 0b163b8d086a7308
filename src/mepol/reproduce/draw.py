"""Draw a figure from the runs that are there: pictures, the numbers in them, and a summary beside the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mepol.errors import RunError
from mepol.evaluation import discrete_entropy
from mepol.figures.bands import draw_bands
from mepol.figures.coverage import draw_maps
from mepol.figures.horizon import draw_horizons
from mepol.finetuning.curves import Curve, Learner, learning_band
from mepol.reproduce.catalogue import Figure
from mepol.reproduce.found import SUMMARY, Series, SummaryRow, note, series_of
from mepol.reproduce.studies import Scale
from mepol.run import Run
from mepol.runs.domain import load_domain
from mepol.runs.files import output_folder
from mepol.runs.groups import Band, Group, band, band_of, last_measured
from mepol.runs.tables import csv_text

LABELS = {
    "index": "entropy index (nats)",
    "discrete_entropy": "discrete entropy per episode (nats)",
    "samples": "training samples (environment steps)",
    "epoch": "epochs",
}
MOST_MAPS = 5
NEIGHBOURS = 4
"""Of the estimates over the testing horizon, well below the trajectories."""


@dataclass(frozen=True)
class Drawn:
    """What a figure consists of: pictures and texts by file name, and its lines of the summary."""

    files: dict[str, bytes]
    rows: list[SummaryRow]


def draw(figure: Figure, root: Path, out: Path, scale: Scale) -> list[Path]:
    """Write a figure of the runs below `root` into the folder `out`; RunError where there is none to show."""
    series = series_of(figure, root, scale)
    if not series:
        raise RunError(f"{figure.name} has no measured run in {root} yet")
    drawn = DRAWERS[figure.data["draw"]](figure, series, scale)
    door = output_folder(out)
    paths = [door.write(name, data) for name, data in drawn.files.items()]
    return [*paths, door.write_text(SUMMARY.name, SUMMARY.head + "".join(map(SUMMARY.line, drawn.rows)))]


def _title(figure: Figure, series: Sequence[Series], scale: Scale) -> str:
    return f"{figure.data['title']}\n{note(series, scale)}"


def _curves(figure: Figure, series: Sequence[Series], scale: Scale) -> Drawn:
    """A measure over training, a band per variant."""
    measure, against = figure.data["measure"], figure.data.get("against", "samples")
    bands = {
        one.title: found
        for one in series
        if (found := band(Group(one.variant, one.runs), measure, against=against)) is not None
    }
    ceilings = {run.config.ceiling for one in series for run in one.runs}
    picture = draw_bands(
        bands,
        title=_title(figure, series, scale),
        x=LABELS[against],
        y=LABELS[measure],
        ceiling=ceilings.pop() if measure == "index" and len(ceilings) == 1 else None,
        levels=figure.levels,
    )
    points = (
        (one.variant, run.config.seed, row.epoch, row.samples, value)
        for one in series
        for run in one.runs
        for row in run.rows()
        if (value := getattr(row, measure)) is not None
    )
    data = csv_text(("series", "seed", "epoch", "samples", measure), points)
    rows = [one.summary(figure, measure, _last(one, measure)) for one in series]
    return Drawn({"figure.png": picture, "data.csv": data.encode()}, rows)


def _last(one: Series, measure: str) -> list[float]:
    rows = (last_measured(run.rows()) for run in one.runs)
    return [float(getattr(row, measure)) for row in rows if row is not None]


def _table(figure: Figure, series: Sequence[Series], scale: Scale) -> Drawn:
    """A measure at the end of training, beside what the paper printed."""
    measure = figure.data["measure"]
    rows = [one.summary(figure, measure, _last(one, measure), f"{one.study.name} {one.variant}") for one in series]
    lines = [f"# {figure.data['title']}", "", f"{note(series, scale)}.", "", "| | here | seeds | the paper |"]
    lines += ["|---|---|---|---|", *(f"| {r.series} | {value_words(r)} | {r.seeds} | {r.paper or ''} |" for r in rows)]
    return Drawn({"table.md": ("\n".join(lines) + "\n").encode()}, rows)


def value_words(row: SummaryRow) -> str:
    """A value with half of its interval, where more than one seed gives one."""
    return f"{row.value:.2f}" if row.high is None else f"{row.value:.2f} ± {row.high - row.value:.2f}"


def _maps(figure: Figure, series: Sequence[Series], scale: Scale) -> Drawn:
    """Visits of the first seed, at turns evenly spaced over training."""
    one = series[0]
    run = one.runs[0]
    turns, grid = run.evaluated_turns(), load_domain(run).grid
    if not turns or grid is None:
        raise RunError(f"{run.path} has stored no visits")
    shown = sorted({turns[round(i)] for i in np.linspace(0, len(turns) - 1, MOST_MAPS)})
    maps = [(f"epoch {turn}", run.load_visits(turn)) for turn in shown]
    picture = draw_maps(maps, grid, title=f"{_title(figure, series, scale)}; seed {run.config.seed}")
    cells = [
        (turn, int(i), int(j), int(visits[i, j]))
        for turn, (_, visits) in zip(shown, maps, strict=True)
        for i, j in np.argwhere(visits)
    ]
    data = csv_text(("epoch", "bin_0", "bin_1", "visits"), cells)
    row = one.summary(figure, "pooled_entropy", [float(discrete_entropy(maps[-1][1]))])
    return Drawn({"figure.png": picture, "data.csv": data.encode()}, [row])


def _horizon(figure: Figure, series: Sequence[Series], scale: Scale) -> Drawn:
    """H(d_h) and the average entropy on fresh trajectories, over the testing horizon h."""
    until, points = figure.setting("until", scale.name), figure.setting("points", scale.name, 20)
    horizons = tuple(sorted({max(1, round(h)) for h in np.linspace(0, until, points + 1)[1:]}))
    asked = {name: figure.setting(name, scale.name) for name in ("trajectories", "eps")}
    found = {
        one.title: [Run(run).evaluate(k=NEIGHBOURS, horizons=horizons, **asked).horizons for run in one.runs]
        for one in series
    }

    def bands(measure: str) -> dict[str, Band]:
        curves = {
            name: [np.array([(row.h, getattr(row, measure)) for row in rows], dtype=np.float64) for rows in runs]
            for name, runs in found.items()
        }
        return {name: shown for name, each in curves.items() if (shown := band_of(each)) is not None}

    picture = draw_horizons(bands("step_entropy"), bands("average_entropy"), title=_title(figure, series, scale))
    lines = (
        (one.variant, run.config.seed, row.h, row.step_entropy, row.average_entropy)
        for one in series
        for run, rows in zip(one.runs, found[one.title], strict=True)
        for row in rows
    )
    data = csv_text(("series", "seed", "h", "step_entropy", "average_entropy"), lines)
    measure = f"average_entropy at h = {horizons[-1]}"
    rows = [one.summary(figure, measure, [each[-1].average_entropy for each in found[one.title]]) for one in series]
    return Drawn({"figure.png": picture, "data.csv": data.encode()}, rows)


def _learning(figure: Figure, series: Sequence[Series], scale: Scale) -> Drawn:
    """Average return over iterations, a picture per task."""
    files: dict[str, bytes] = {}
    rows, lines = [], []
    for task in dict.fromkeys(one.task for one in series):
        mine = [one for one in series if one.task == task]
        curves = {one.title: tuple(Curve.of(run) for run in one.runs) for one in mine}
        bands = {
            name: shown
            for name, each in curves.items()
            if (shown := learning_band(Learner(task, name, each), "average_return")) is not None
        }
        several = len({one.task for one in series}) > 1
        title = f"{task}: {note(mine, scale)}" if several else _title(figure, mine, scale)
        name = f"figure-{task}.png" if several else "figure.png"
        files[name] = draw_bands(bands, title=title, x="iterations", y="average return")
        for one in mine:
            last = [curve.last for curve in curves[one.title]]
            values = [row.average_return for row in last if row is not None and row.average_return is not None]
            rows.append(one.summary(figure, "average_return", values, f"{task} {one.variant}" if several else ""))
            lines += [
                (task, one.variant, curve.seed, row.iteration, row.samples, row.average_return)
                for curve in curves[one.title]
                for row in curve.rows
                if row.average_return is not None
            ]
    data = csv_text(("task", "series", "seed", "iteration", "samples", "average_return"), lines)
    return Drawn({**files, "data.csv": data.encode()}, rows)


Drawer = Callable[[Figure, Sequence[Series], Scale], Drawn]
DRAWERS: dict[str, Drawer] = {
    "curves": _curves,
    "table": _table,
    "maps": _maps,
    "horizon": _horizon,
    "learning": _learning,
}
"""The kinds of figures."""

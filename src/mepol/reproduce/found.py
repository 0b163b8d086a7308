"""What is on disk of a study: its runs by variant, how far they got, and that as a line of a summary."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mepol.errors import MepolError
from mepol.evaluation.statistics import mean_interval
from mepol.reproduce.catalogue import Figure
from mepol.reproduce.studies import PAPER, Scale, Study
from mepol.runs.directory import RunDirectory
from mepol.runs.tables import Table

Directory = RunDirectory[Any, Any]


@dataclass(frozen=True)
class SummaryRow:
    """One line of a figure's summary.csv: where a series ends, beside the paper."""

    figure: str
    series: str
    measure: str
    value: float
    low: float | None
    high: float | None
    seeds: int
    paper_seeds: int
    samples: int
    share: float | None
    """Of the paper's samples, by the seed that got least far; None where nothing is learnt."""
    settings: str
    """`fast` or `paper`."""
    scale: str
    paper: float | None
    """The value that the paper printed."""


SUMMARY = Table("summary.csv", SummaryRow)


@dataclass(frozen=True)
class Series:
    """The runs of one variant that are there and have something measured, by seed."""

    study: Study
    variant: str
    task: str
    runs: tuple[Directory, ...]
    scale: Scale

    @property
    def samples(self) -> int:
        """Training samples of the run that got least far."""
        return int(min(run.rows()[-1].samples for run in self.runs))

    @property
    def share(self) -> float | None:
        """Of the paper's samples; None where nothing is learnt."""
        whole = self.study.samples(self.variant, PAPER) / len(self.study.data.get("tasks", "1"))
        return self.samples / whole if whole else None

    @property
    def title(self) -> str:
        """For a legend: the variant, and how long it was trained beside the paper."""
        return self.variant if self.share is None else f"{self.variant}, {percent(self.share)} of the paper's samples"

    def summary(self, figure: Figure, measure: str, values: Sequence[float], name: str = "") -> SummaryRow:
        """Where the series ends: `values`, one per seed."""
        interval, name = mean_interval(list(values)), name or self.variant
        return SummaryRow(
            figure.name,
            name,
            measure,
            round(interval.centre, 4),
            None if interval.low is None else round(interval.low, 4),
            None if interval.high is None else round(interval.high, 4),
            len(values),
            int(self.study.data["seeds"]),
            self.samples,
            None if self.share is None else round(self.share, 6),
            "fast" if self.scale.fast else "paper",
            self.scale.name,
            figure.levels.get(name),
        )


def percent(share: float) -> str:
    """Two digits of a share: 46 %, 0.015 %."""
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def series_of(figure: Figure, root: Path, scale: Scale) -> list[Series]:
    """Every variant that the figure shows and that has a measured run below `root`, per task."""
    found = []
    for study in figure.studies:
        for task in study.data.get("tasks", ("",)):
            for variant in figure.variants(study):
                runs = tuple(_runs(study, root, variant, task))
                if runs:
                    found.append(Series(study, variant, task, runs, scale))
    return found


def _runs(study: Study, root: Path, variant: str, task: str) -> list[Directory]:
    """By seed; one that cannot be read, or has measured nothing yet, is not there."""
    any_seed = study.place(root, variant, 0, task)
    paths = any_seed.parent.glob(f"{any_seed.name.removesuffix('0')}*")
    numbered = {int(path.name.rpartition("-")[2]): path for path in paths if path.name.rpartition("-")[2].isdecimal()}
    found = []
    for seed in sorted(numbered):
        with suppress(MepolError):
            run = RunDirectory.open(numbered[seed])
            if any(getattr(row, run.phase.score) is not None for row in run.rows()):
                found.append(run)
    return found


def note(series: Sequence[Series], scale: Scale) -> str:
    """Under the title of a figure: how many seeds of the paper's, and whose settings."""
    seeds = sorted({len(one.runs) for one in series})
    wanted = max(int(one.study.data["seeds"]) for one in series)
    shown = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    shares = [one.share for one in series if one.share is not None]
    length = f", {percent(min(shares))} of the paper's samples or more" if shares else ""
    return f"{shown} of {wanted} seeds{length}; {'settings of --fast' if scale.fast else 'the paper’s settings'}"

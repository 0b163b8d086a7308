"""What a finished exploration shows a person: its figures and its summary in numbers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from mepol.errors import RunError
from mepol.exploration.rows import MetricsRow
from mepol.figures.coverage import draw_before_and_after, draw_heatmap
from mepol.figures.curve import draw_curve
from mepol.figures.worlds import draw_worlds
from mepol.runs.directory import RunDirectory
from mepol.runs.domain import load_domain
from mepol.runs.drive import best_kept


@dataclass(frozen=True)
class Summary:
    """First, best and last evaluated policy of a run, and the figures drawn of it."""

    first: MetricsRow
    best: MetricsRow
    """The one that best.safetensors holds; its row may be without a measure where the run then went on."""
    last: MetricsRow
    ceiling: float | None
    figures: tuple[Path, ...]


def summarise(run: RunDirectory) -> Summary:  # type: ignore[type-arg]
    """Draw every figure of an exploration from its files alone and return what it measured."""
    rows = run.rows()
    measured = [row for row in rows if row.index is not None]
    if not measured:
        raise RunError(f"{run.path} has no evaluated policy yet")
    title, ceiling = f"{run.config.env}, seed {run.config.seed}", load_domain(run).ceiling
    figures = [run.door.write("figures/entropy.png", draw_curve(rows, title, ceiling=ceiling))]
    figures += draw_heatmaps(run)
    figures += draw_worlds(run)
    best = max(measured, key=lambda row: row.index)
    if (kept := best_kept(run)) is not None:
        turn, score = kept
        best = dataclasses.replace(next((row for row in rows if row.epoch == turn), MetricsRow(turn, 0)), index=score)
    return Summary(measured[0], best, measured[-1], ceiling, tuple(figures))


def draw_heatmaps(run: RunDirectory) -> list[Path]:  # type: ignore[type-arg]
    """Draw the stored visits of a run of either phase, each by itself and the first beside the last."""
    name = run.phase.turn
    epochs = run.evaluated_turns()
    if not epochs or (grid := load_domain(run).grid) is None:
        return []
    maps = {epoch: run.load_visits(epoch) for epoch in epochs}
    for epoch, visits in maps.items():
        picture = run.visits_path(epoch).with_suffix(".png")
        run.door.write(f"heatmaps/{picture.name}", draw_heatmap(visits, grid, f"{name} {epoch}"))
    first, last = epochs[0], epochs[-1]
    titles = (f"before ({name} {first})", f"after ({name} {last})")
    return [run.door.write("figures/coverage.png", draw_before_and_after(maps[first], maps[last], grid, titles))]

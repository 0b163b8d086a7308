"""What a finished run shows a person: its figures and its summary in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mepol.envs.make import closing, make_env
from mepol.errors import RunError
from mepol.exploration.environment import domain_of
from mepol.figures import draw_before_and_after, draw_curve, draw_heatmap
from mepol.runs.directory import MetricsRow, Run


@dataclass(frozen=True)
class Summary:
    """First and last evaluated policy of a run, and the figures drawn of it."""

    first: MetricsRow
    last: MetricsRow
    ceiling: float | None
    figures: tuple[Path, ...]


def summarise(run: Run) -> Summary:
    """Draw every figure of `run` from its files and return its first and last evaluation."""
    rows = run.rows()
    measured = [row for row in rows if row.index is not None]
    if not measured:
        raise RunError(f"{run.path} has no evaluated policy yet")
    title, ceiling = f"{run.config.env}, seed {run.config.seed}", run.config.ceiling
    figures = [draw_curve(rows, title, run.path / "figures" / "entropy.png", ceiling=ceiling)]
    figures += _draw_heatmaps(run)
    return Summary(measured[0], measured[-1], ceiling, tuple(figures))


def _draw_heatmaps(run: Run) -> list[Path]:
    with closing(make_env(run.config.env, 1)) as env:
        grid = domain_of(env, run.config).grid
    epochs = run.evaluated_epochs()
    if grid is None or not epochs:
        return []
    maps = {epoch: run.load_visits(epoch) for epoch in epochs}
    for epoch, visits in maps.items():
        draw_heatmap(visits, grid, f"epoch {epoch}", run.visits_path(epoch).with_suffix(".png"))
    first, last = epochs[0], epochs[-1]
    titles = (f"before (epoch {first})", f"after (epoch {last})")
    path = run.path / "figures" / "coverage.png"
    return [draw_before_and_after(maps[first], maps[last], grid, titles, path)]

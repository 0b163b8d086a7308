"""Heatmaps: ln of the probability of a visit to each cell, as in the paper's appendix; a histogram of one axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from mepol.envs.coordinates import Grid
from mepol.evaluation import discrete_entropy
from mepol.figures.canvas import ACCENT, new_figure, png
from mepol.runs.text import label


def draw_heatmap(visits: NDArray[np.int64], grid: Grid, title: str) -> bytes:
    """One map of `visits` (bins_0, bins_1)."""
    return png(heatmap_figure(visits, grid, title))


def heatmap_figure(
    visits: NDArray[np.int64], grid: Grid, title: str, *, scale: tuple[float, float] | None = None
) -> Figure:
    """The figure of one map, on the colour scale of several or by default its own."""
    figure, (axes,) = new_figure(width=4.6, height=3.9)
    _colour_bar(figure, [axes], _map(axes, visits, grid, title, scale or colour_scale(visits)))
    return figure


def draw_before_and_after(
    before: NDArray[np.int64], after: NDArray[np.int64], grid: Grid, titles: tuple[str, str]
) -> bytes:
    """Two maps side by side on one colour scale."""
    return draw_maps(list(zip(titles, (before, after), strict=True)), grid)


def draw_maps(
    maps: Sequence[tuple[str, NDArray[np.int64]]], grid: Grid, *, title: str = "", columns: int | None = None
) -> bytes:
    """Maps (bins_0, bins_1) side by side, or in rows of `columns`, under their titles, on one colour scale."""
    figure, axes = new_figure(len(maps), width=4.6, height=4.1, columns=columns)
    scale = colour_scale(*(visits for _, visits in maps))
    for place, (name, visits) in zip(axes, maps, strict=True):
        image = _map(place, visits, grid, name, scale)
    _colour_bar(figure, axes, image)
    if title:
        figure.suptitle(label(title), fontsize=10)
    return png(figure)


def colour_scale(*maps: NDArray[np.int64]) -> tuple[float, float]:
    """Lowest and highest colour: ln-probability of a cell seen once, and of the most visited one."""
    totals = [max(int(visits.sum()), 2) for visits in maps]
    highest = max(int(visits.max()) / total for visits, total in zip(maps, totals, strict=True))
    return float(-np.log(max(totals))), float(np.log(max(highest, 2 / max(totals))))


def _map(axes: Axes, visits: NDArray[np.int64], grid: Grid, title: str, scale: tuple[float, float]) -> AxesImage | None:
    """Draw the map; returns what a colour bar is of, which a histogram does not need."""
    axes.set_xlabel(label(grid.names[0]))
    axes.set_title(f"{title}\n{np.count_nonzero(visits)} cells, {discrete_entropy(visits):.2f} nats pooled", fontsize=9)
    if grid.line:
        edges = np.linspace(grid.low[0], grid.high[0], grid.bins[0] + 1)
        axes.stairs(visits.sum(axis=1) / max(int(visits.sum()), 1), edges, fill=True, color=ACCENT)
        axes.set_ylim(0.0, 1.05 * float(np.exp(scale[1])))
        axes.set_ylabel("probability of a visit")
        return None
    with np.errstate(divide="ignore"):
        log_probability = np.log(visits / max(int(visits.sum()), 1))
    image = axes.imshow(
        np.ma.masked_invalid(log_probability).T,
        origin="lower",
        extent=(grid.low[0], grid.high[0], grid.low[1], grid.high[1]),
        aspect="auto",
        cmap="viridis",
        vmin=scale[0],
        vmax=scale[1],
        interpolation="nearest",
    )
    axes.set_facecolor("#f1f3f5")
    axes.set_ylabel(label(grid.names[1]))
    return image


def _colour_bar(figure: Figure, axes: list[Axes], image: AxesImage | None) -> None:
    if image is None:
        return
    figure.colorbar(image, ax=axes, label="ln probability of a visit", shrink=0.9)

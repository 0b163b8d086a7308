"""Heatmaps: ln of the probability of a visit to each cell, as in the paper's appendix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from mepol.evaluate import Grid, discrete_entropy
from mepol.figures.canvas import new_figure, save


def draw_heatmap(visits: NDArray[np.int64], grid: Grid, title: str, path: Path) -> Path:
    """One map of `visits` (bins_0, bins_1)."""
    return save(heatmap_figure(visits, grid, title), path)


def heatmap_figure(visits: NDArray[np.int64], grid: Grid, title: str, *, total: int | None = None) -> Figure:
    """The figure of one map; `total` visits set the lowest colour, by default those of the map itself."""
    figure, (axes,) = new_figure(width=4.6, height=3.9)
    floor = _floor(visits) if total is None else float(-np.log(max(total, 2)))
    _colour_bar(figure, [axes], _map(axes, visits, grid, title, floor))
    return figure


def draw_before_and_after(
    before: NDArray[np.int64], after: NDArray[np.int64], grid: Grid, titles: tuple[str, str], path: Path
) -> Path:
    """Two maps side by side on one colour scale."""
    figure, axes = new_figure(2, width=4.6, height=4.1)
    floor = min(_floor(before), _floor(after))
    for place, visits, title in zip(axes, (before, after), titles, strict=True):
        image = _map(place, visits, grid, title, floor)
    _colour_bar(figure, axes, image)
    return save(figure, path)


def _floor(visits: NDArray[np.int64]) -> float:
    """ln-probability of a cell seen once: the lowest colour."""
    return float(-np.log(max(int(visits.sum()), 2)))


def _map(axes: Axes, visits: NDArray[np.int64], grid: Grid, title: str, floor: float) -> AxesImage:
    with np.errstate(divide="ignore"):
        log_probability = np.log(visits / max(int(visits.sum()), 1))
    image = axes.imshow(
        np.ma.masked_invalid(log_probability).T,
        origin="lower",
        extent=(grid.low[0], grid.high[0], grid.low[1], grid.high[1]),
        aspect="auto",
        cmap="viridis",
        vmin=floor,
        vmax=0.5 * floor,
        interpolation="nearest",
    )
    axes.set_facecolor("#f1f3f5")
    axes.set_xlabel(grid.names[0])
    axes.set_ylabel(grid.names[1])
    axes.set_title(f"{title}\n{np.count_nonzero(visits)} cells, {discrete_entropy(visits):.2f} nats pooled", fontsize=9)
    return image


def _colour_bar(figure: Figure, axes: list[Axes], image: AxesImage) -> None:
    figure.colorbar(image, ax=axes, label="ln probability of a visit", shrink=0.9, extend="max")

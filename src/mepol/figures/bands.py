"""Curves of several runs with a band over seeds."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from mepol.figures.canvas import INK, legend_below, new_figure, png
from mepol.runs.groups import Band
from mepol.runs.text import label

COLOURS = ("#0077b6", "#d1495b", "#2a9d8f", "#e9a03b", "#6a4c93", "#8d99ae", "#3a5a40", "#b5651d")


def draw_bands(
    bands: Mapping[str, Band],
    *,
    title: str,
    x: str,
    y: str,
    ceiling: float | None = None,
    levels: Mapping[str, float] | None = None,
) -> bytes:
    """One line a group with its 95 % interval; a group measured once only is a dashed level.

    levels: the paper's values, each a dotted line in the colour of the group whose name begins with the level's.
    """
    figure, (axes,) = new_figure(width=6.4, height=4.0)
    plot_bands(axes, bands)
    if ceiling is not None:
        axes.axhline(ceiling, color=INK, ls=":", lw=1, label=f"ceiling {ceiling:.3f}")
    for name, level in (levels or {}).items():
        place = next((i for i, group in enumerate(bands) if group.split(",")[0] == name), None)
        colour = INK if place is None else COLOURS[place % len(COLOURS)]
        axes.axhline(level, color=colour, ls=(0, (1, 3)), lw=1.4, label=f"{label(name)}, the paper: {level:g}")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(label(title), fontsize=10)
    legend_below(figure, axes)
    return png(figure)


def plot_bands(axes: Axes, bands: Mapping[str, Band]) -> None:
    """Draw `bands` into `axes`."""
    for i, (name, band) in enumerate(bands.items()):
        colour = COLOURS[i % len(COLOURS)]
        shown = f"{label(name)} ({band.n} seed{'s' if band.n > 1 else ''})"
        if len(band.x) == 1:  # nothing was trained: the same at any number of samples
            axes.axhline(float(band.centre[0]), color=colour, ls="--", lw=1.4, label=shown)
            axes.axhspan(float(band.low[0]), float(band.high[0]), color=colour, alpha=0.15, lw=0)
            continue
        axes.plot(band.x, band.centre, color=colour, lw=1.6, label=shown)
        axes.fill_between(band.x, band.low, band.high, color=colour, alpha=0.2, lw=0)
    axes.spines[["top", "right"]].set_visible(False)

"""Seconds against sizes on logarithmic axes, where a power law is a straight line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.ticker import NullFormatter

from mepol.figures.bands import COLOURS
from mepol.figures.canvas import new_figure, png

Curve = Sequence[tuple[int, float]]
"""(size, seconds) in order of size."""
COLUMNS = 4  # panels a row


def draw_growth(panels: Mapping[str, Mapping[str, Curve]]) -> bytes:
    """A PNG with one panel a size that grows, named by its x axis, and in each one line a part of an epoch."""
    figure, places = new_figure(len(panels), width=3.2, height=3.2, columns=COLUMNS)
    for axes, (label, curves) in zip(places, panels.items(), strict=True):
        for i, (name, curve) in enumerate(curves.items()):
            axes.loglog(*zip(*curve, strict=True), color=COLOURS[i], marker="o", ms=3, lw=1.4, label=name)
        axes.set_xlabel(label)
        if curves:
            axes.legend(frameon=False, fontsize=7, loc="lower left", bbox_to_anchor=(0.0, 1.0))  # no curve is hidden
        axes.xaxis.set_minor_formatter(NullFormatter())  # its labels would overlap
        axes.spines[["top", "right"]].set_visible(False)
    for axes in places[::COLUMNS]:
        axes.set_ylabel("seconds an epoch")
    return png(figure)

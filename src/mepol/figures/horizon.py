"""H(d_h) and the average entropy against the testing horizon h, a line a training horizon or explorer."""

from __future__ import annotations

from collections.abc import Mapping

from mepol.figures.bands import plot_bands
from mepol.figures.canvas import legend_below, new_figure, png
from mepol.runs.groups import Band
from mepol.runs.text import label


def draw_horizons(step: Mapping[str, Band], average: Mapping[str, Band], *, title: str) -> bytes:
    """Two panels side by side, as in the paper: the h-step entropy and the average entropy, with 95 % bands."""
    figure, panels = new_figure(2, width=5.2, height=3.8)
    labels = ("h-step entropy H(d_h) (nats)", "average entropy of steps 1 to h (nats)")
    for axes, bands, name in zip(panels, (step, average), labels, strict=True):
        plot_bands(axes, bands)
        axes.set_xlabel("testing horizon h (steps)")
        axes.set_ylabel(name)
    legend_below(figure, panels[0])
    figure.suptitle(label(title), fontsize=10)
    return png(figure)

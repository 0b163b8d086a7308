"""One look for all figures, and no window system: Matplotlib's object interface on the Agg canvas."""

from __future__ import annotations

import io
import math
import textwrap

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

INK, ACCENT, MUTED = "#2b2d42", "#0077b6", "#8d99ae"


def new_figure(
    panels: int = 1, *, width: float = 5.0, height: float = 3.6, columns: int | None = None
) -> tuple[Figure, list[Axes]]:
    """A figure with so many axes, each `width` x `height` inches: side by side, or in rows of at most `columns`."""
    across = min(panels, columns or panels)
    rows = math.ceil(panels / across)
    figure = Figure(figsize=(width * across, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    places = list(figure.subplots(rows, across, squeeze=False).flat)
    for spare in places[panels:]:
        spare.remove()
    return figure, places[:panels]


def legend_below(figure: Figure, axes: Axes) -> None:
    """The legend of `axes` under everything else, for which the figure grows: it can hide no curve."""
    lines, names = axes.get_legend_handles_labels()
    if not lines:
        return
    width, height = figure.get_size_inches()
    names = [textwrap.fill(name, int(15 * width)) for name in names]  # 15 letters of this size are an inch
    rows = sum(name.count("\n") + 1 for name in names)
    figure.set_size_inches(width, height + 0.16 * rows + 0.1)
    figure.legend(lines, names, loc="outside lower left", frameon=False, fontsize=7)


def png(figure: Figure) -> bytes:
    """`figure` as the bytes of a PNG file; who asked for it writes it where it belongs."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()

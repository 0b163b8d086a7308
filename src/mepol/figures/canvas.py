"""One look for all figures, and no window system: Matplotlib's object interface on the Agg canvas."""

from __future__ import annotations

import io
import math

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


def png(figure: Figure) -> bytes:
    """`figure` as the bytes of a PNG file; who asked for it writes it where it belongs."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()

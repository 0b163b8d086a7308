"""One look for all figures, and no window system: Matplotlib's object interface on the Agg canvas."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mepol.errors import RunError
from mepol.files import write_bytes

INK, ACCENT, MUTED = "#2b2d42", "#0077b6", "#8d99ae"


def new_figure(columns: int = 1, *, width: float = 5.0, height: float = 3.6) -> tuple[Figure, list[Axes]]:
    """A figure with `columns` axes side by side, each `width` x `height` inches."""
    figure = Figure(figsize=(width * columns, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(1, columns, squeeze=False)[0])


def save(figure: Figure, path: Path) -> Path:
    """Write `figure` as PNG, atomically; RunError where it cannot be written."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    try:
        write_bytes(path, buffer.getvalue())
    except OSError as fault:
        raise RunError(f"cannot write the figure {path}: {fault}") from fault
    return path

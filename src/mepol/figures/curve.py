"""Entropy against training samples."""

from __future__ import annotations

from collections.abc import Sequence

from mepol.exploration.rows import MetricsRow
from mepol.figures.canvas import ACCENT, INK, MUTED, legend_below, new_figure, png
from mepol.runs.text import label


def draw_curve(rows: Sequence[MetricsRow], title: str, *, ceiling: float | None = None) -> bytes:
    """The training estimate of each batch, the index of each evaluation, and the ceiling where it is known."""
    figure, (axes,) = new_figure(width=5.6)
    trained = [(row.samples, row.entropy) for row in rows if row.entropy is not None]
    measured = [(row.samples, row.index) for row in rows if row.index is not None]
    if trained:
        axes.plot(*zip(*trained, strict=True), color=MUTED, lw=1, label="training batch")
    if measured:
        axes.plot(*zip(*measured, strict=True), color=ACCENT, lw=1.8, marker="o", ms=4, label="index, fresh batch")
    if ceiling is not None:
        axes.axhline(ceiling, color=INK, ls="--", lw=1, label=f"ceiling {ceiling:.3f}")
    axes.set_xlabel("training samples (environment steps)")
    axes.set_ylabel("state entropy (nats)")
    axes.set_title(label(title), fontsize=10)
    legend_below(figure, axes)
    axes.spines[["top", "right"]].set_visible(False)
    return png(figure)

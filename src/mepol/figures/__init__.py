"""Pictures of runs, from what their directories hold: functions that return a file's bytes, which callers write."""

from __future__ import annotations

from mepol.figures.animation import animate
from mepol.figures.bands import draw_bands
from mepol.figures.coverage import draw_before_and_after, draw_heatmap
from mepol.figures.curve import draw_curve
from mepol.figures.horizon import draw_horizons

__all__ = [
    "animate",
    "draw_bands",
    "draw_before_and_after",
    "draw_curve",
    "draw_heatmap",
    "draw_horizons",
]

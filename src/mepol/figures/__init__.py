"""Pictures of finished or running explorations, drawn from run directories alone."""

from __future__ import annotations

from mepol.figures.coverage import draw_before_and_after, draw_heatmap
from mepol.figures.curve import draw_curve

__all__ = ["draw_before_and_after", "draw_curve", "draw_heatmap"]

"""The map of `mepol goals`: how often and how soon each goal is met."""

from __future__ import annotations

import numpy as np

from mepol.envs.coordinates import Grid
from mepol.evaluation.goal_coverage import GoalCoverage
from mepol.figures.canvas import new_figure, png
from mepol.runs.text import label


def draw_goal_coverage(coverage: GoalCoverage, grid: Grid) -> bytes:
    """Two maps: hit rate from 0 to 1, and steps to the first hit."""
    figure, axes = new_figure(2, width=4.6, height=3.9)
    extent = (grid.low[0], grid.high[0], grid.low[1], grid.high[1])
    steps = f"{coverage.mean_steps_to_hit:.0f} on average"
    for place, values, title, top in (
        (axes[0], coverage.hit_rate, f"zero-shot hit rate, mean {coverage.mean_hit_rate:.3f}", 1.0),
        (axes[1], coverage.steps_to_hit, f"steps to hit, {steps}", None),
    ):
        image = place.imshow(
            np.ma.masked_invalid(values).T, origin="lower", extent=extent, aspect="auto", vmin=0.0, vmax=top
        )
        place.set_facecolor("#f1f3f5")
        place.set_xlabel(label(grid.names[0]))
        if grid.line:
            place.set_yticks([])
        else:
            place.set_ylabel(label(grid.names[1]))
        place.set_title(title, fontsize=9)
        figure.colorbar(image, ax=place, shrink=0.9)
    return png(figure)

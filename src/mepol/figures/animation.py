"""How coverage grows over training: the heatmaps of a run as one animated GIF."""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from numpy.typing import NDArray
from PIL import Image

from mepol.envs.coordinates import Grid
from mepol.errors import RunError
from mepol.figures.coverage import colour_scale, heatmap_figure


def animate(maps: Mapping[int, NDArray[np.int64]], grid: Grid, *, seconds: float = 0.4, turn: str = "epoch") -> bytes:
    """A GIF of the visits (bins_0, bins_1) of each epoch, a frame of `seconds` each; the last stays four times as long.

    All frames share one colour scale. turn: what an epoch is called.
    """
    if not maps:
        raise RunError("there is nothing to animate: no policy of the run has visits to a grid")
    scale = colour_scale(*maps.values())
    frames = [_frame(maps[epoch], grid, f"{turn} {epoch}", scale) for epoch in sorted(maps)]
    times = [round(1000 * seconds)] * (len(frames) - 1) + [round(4000 * seconds)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=times, loop=0)
    return buffer.getvalue()


def _frame(visits: NDArray[np.int64], grid: Grid, title: str, scale: tuple[float, float]) -> Image.Image:
    figure = heatmap_figure(visits, grid, title, scale=scale)
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]  # type: ignore[no-untyped-call]
    return Image.fromarray(np.ascontiguousarray(pixels))

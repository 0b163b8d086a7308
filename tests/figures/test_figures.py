"""Figures are written, are pictures, and show their data."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from mepol.envs.coordinates import Grid
from mepol.errors import RunError
from mepol.exploration.rows import MetricsRow
from mepol.figures import animate, draw_bands, draw_before_and_after, draw_curve, draw_heatmap
from mepol.figures.bands import plot_bands
from mepol.figures.canvas import legend_below, new_figure
from mepol.runs.groups import Band

GRID = Grid((0, 1), ("x", "y"), (-6.0, -6.0), (6.0, 6.0), (20, 20))
EVEN = np.full((20, 20), 7)
CORNER = np.zeros((20, 20), dtype=np.int64)
CORNER[:4, :4] = 100
ROWS = [MetricsRow(0, 0, entropy=3.4, index=3.5), MetricsRow(1, 24_000, entropy=3.9), MetricsRow(2, 48_000, index=4.2)]


def pixels(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB"))


def test_a_heatmap_shows_its_visits() -> None:
    a = pixels(draw_heatmap(EVEN, GRID, "even"))
    b = pixels(draw_heatmap(CORNER, GRID, "even"))
    assert a.shape == b.shape
    assert min(a.shape[:2]) > 300
    assert a.std() > 5
    assert (a != b).any(axis=2).mean() > 0.2
    turned = pixels(draw_heatmap(CORNER[::-1], GRID, "even"))
    assert (turned != b).any(axis=2).mean() > 0.02


def test_the_first_axis_goes_right_and_the_second_up() -> None:
    one = np.zeros((20, 20), dtype=np.int64)
    one[17, 2] = 50  # far right, near the bottom
    empty = np.zeros((20, 20), dtype=np.int64)
    empty[2, 17] = 50  # far left, near the top
    a = pixels(draw_heatmap(one, GRID, "t")).astype(int)
    b = pixels(draw_heatmap(empty, GRID, "t")).astype(int)
    rows, columns = np.nonzero(np.abs(a - b).sum(axis=2) > 60)
    middle = (rows.min() + rows.max()) / 2, (columns.min() + columns.max()) / 2
    face = np.array([241, 243, 245])  # unvisited
    filled = np.argwhere((np.abs(a - b).sum(axis=2) > 60) & (np.abs(b - face).sum(axis=2) < 6)).mean(axis=0)
    assert filled[0] > middle[0]
    assert filled[1] > middle[1]


def test_before_and_after_stand_side_by_side() -> None:
    titles = ("before", "after")
    a = pixels(draw_before_and_after(CORNER, EVEN, GRID, titles))
    b = pixels(draw_before_and_after(EVEN, CORNER, GRID, titles))
    assert a.shape[1] > 1.5 * a.shape[0]
    assert (a != b).any()


def test_a_curve_shows_its_rows_and_its_ceiling() -> None:
    a = pixels(draw_curve(ROWS, "title"))
    b = pixels(draw_curve(ROWS[:1], "title"))
    c = pixels(draw_curve(ROWS, "title", ceiling=4.608))
    assert min(a.shape[:2]) > 300
    assert (a != b).any()
    assert len(c) > len(a)  # the legend, which lies below, has a line more
    assert (a[:300] != c[:300]).any()


@pytest.mark.parametrize("rows", [[], [MetricsRow(0, 0)]])
def test_a_curve_of_nothing_is_still_a_picture(rows: list[MetricsRow]) -> None:
    assert min(pixels(draw_curve(rows, "empty", ceiling=1.0)).shape[:2]) > 300


def test_the_same_data_give_the_same_bytes() -> None:
    assert draw_curve(ROWS, "title") == draw_curve(ROWS, "title")
    assert draw_heatmap(EVEN, GRID, "even") == draw_heatmap(EVEN, GRID, "even")


def test_an_animation_has_one_frame_an_epoch_in_order() -> None:
    data = animate({20: EVEN, 0: CORNER, 10: CORNER + 1}, GRID, seconds=0.1)
    with Image.open(io.BytesIO(data)) as film:
        assert (film.format, film.n_frames) == ("GIF", 3)
        frames, times = [], []
        for i in range(3):
            film.seek(i)
            frames.append(np.asarray(film.convert("RGB")).astype(int))
            times.append(film.info["duration"])
    assert times == [100, 100, 400]
    assert np.abs(frames[0] - frames[1]).mean() > 1
    one = animate({0: CORNER}, GRID)
    with Image.open(io.BytesIO(one)) as film:
        # Alone, the corner has its own colour scale; the picture around it is the same.
        assert np.asarray(film.convert("RGB")).shape == frames[0].shape
    with pytest.raises(RunError, match="nothing to animate"):
        animate({}, GRID)


@pytest.mark.parametrize(
    ("panels", "columns", "inches"), [(1, None, (5, 3)), (3, None, (15, 3)), (5, 3, (15, 6)), (2, 4, (10, 3))]
)
def test_panels_stand_in_rows_of_so_many_columns(panels: int, columns: int | None, inches: tuple[int, int]) -> None:
    figure, places = new_figure(panels, width=5, height=3, columns=columns)
    assert len(places) == len(figure.axes) == panels
    assert tuple(figure.get_size_inches()) == inches


def test_a_legend_of_six_groups_hides_no_curve_and_is_not_cut_off() -> None:
    x = np.linspace(0.0, 1e6, 9)
    names = [f"mepol k={i} learning_rate=0.0001 kl_threshold=2.5 trajectories=100 ... (1 unfinished)" for i in range(5)]
    names.append("a name of its own " * 12)
    figure, (axes,) = new_figure(width=6.4, height=4.0)
    plot_bands(axes, {name: Band(x, x * i, x * i - 1, x * i + 1, 8) for i, name in enumerate(names)})
    legend_below(figure, axes)
    figure.canvas.draw()
    (legend,) = figure.legends
    place, plot, page = legend.get_window_extent(), axes.get_tightbbox(), figure.bbox
    assert len(legend.get_texts()) == 6
    assert place.y1 <= plot.y0
    assert page.x0 <= place.x0 < place.x1 <= page.x1
    assert page.y0 <= place.y0
    assert axes.get_window_extent().height > 250  # the figure grew for it; the curves did not shrink


def test_dollars_in_names_are_no_formula() -> None:
    band = Band(np.arange(3.0), np.ones(3), np.ones(3), np.ones(3), 1)
    assert pixels(draw_bands({"$\\frac{": band}, title="$\\sqrt{$", x="x", y="y")).size > 0

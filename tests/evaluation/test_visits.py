"""Visit counts and discrete entropies, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mepol.algorithm.batch import Batch
from mepol.envs.coordinates import Grid
from mepol.errors import ConfigError
from mepol.evaluation import discrete_entropy, visit_counts

SQUARE = Grid((0, 1), ("x", "y"), (0.0, 0.0), (2.0, 2.0), (2, 2))


def batch(*trajectories: list[tuple[float, ...]]) -> Batch:
    """Trajectories of s_0, s_1, ..., padded."""
    longest = max(map(len, trajectories))
    states = np.full((len(trajectories), longest, len(trajectories[0][0])), 0.5)
    for row, path in zip(states, trajectories, strict=True):
        row[: len(path)] = path
    lengths = np.array([len(path) - 1 for path in trajectories])
    return Batch(states, np.zeros((len(trajectories), longest - 1, 1), dtype=np.float32), lengths)


def test_counts_by_hand() -> None:
    counts = visit_counts(
        batch(
            [(1.9, 1.9), (0.5, 0.5), (0.5, 1.5), (0.5, 1.5)],  # the start is not a visit
            [(0.0, 0.0), (1.5, 0.5)],  # nor is the padding
        ),
        SQUARE,
    )
    np.testing.assert_array_equal(counts, [[[1, 2], [0, 0]], [[0, 0], [1, 0]]])


def test_outer_cells_absorb_what_lies_outside() -> None:
    counts = visit_counts(batch([(0, 0), (-99, 0.5), (99, 0.5), (0.5, 2.0), (2.0, 2.0), (1e300, -1e300)]), SQUARE)
    np.testing.assert_array_equal(counts[0], [[1, 1], [2, 1]])


def test_edges_belong_to_the_cell_above() -> None:
    counts = visit_counts(batch([(0, 0), (0.0, 0.0), (1.0, 0.999), (0.999, 1.0)]), SQUARE)
    np.testing.assert_array_equal(counts[0], [[1, 1], [1, 0]])


def test_axes_are_the_chosen_coordinates() -> None:
    grid = Grid((2, 0), ("z", "x"), (0.0, -6.0), (1.0, 6.0), (4, 3))
    counts = visit_counts(batch([(0, 0, 0), (5.0, 77.0, 0.3)]), grid)
    assert counts.shape == (1, 4, 3)
    assert counts[0, 1, 2] == counts.sum() == 1


@given(seed=st.integers(0, 10_000), m=st.integers(1, 5), horizon=st.integers(1, 30))
def test_every_step_is_counted_once(seed: int, m: int, horizon: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, horizon + 1, m)
    states = 3 * rng.standard_normal((m, horizon + 1, 2))
    data = Batch(states, np.zeros((m, horizon, 1), dtype=np.float32), lengths)
    grid = Grid((0, 1), ("x", "y"), (-2.0, -3.0), (2.0, 1.0), (7, 5))
    counts = visit_counts(data, grid)
    np.testing.assert_array_equal(counts.sum(axis=(1, 2)), lengths)
    for i in range(m):
        inside = np.clip(states[i, 1 : lengths[i] + 1], [-2, -3], [2, 1])
        expected, *_ = np.histogram2d(*inside.T, bins=(7, 5), range=((-2, 2), (-3, 1)))
        np.testing.assert_array_equal(counts[i], expected)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([[4, 0], [0, 0]], 0.0),
        ([[1, 1], [1, 1]], math.log(4)),
        ([[3, 1], [0, 0]], -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))),
        ([1, 2, 1], 1.5 * math.log(2)),
    ],
)
def test_discrete_entropy_by_hand(counts: list, expected: float) -> None:
    assert discrete_entropy(np.array(counts)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ((0.0, -math.inf), (1.0, 1.0), "feature 'y' is unbounded.*heatmap_low and heatmap_high"),
        ((math.nan, 0.0), (1.0, 1.0), "feature 'x' is unbounded"),
        ((0.0, 1.0), (1.0, 1.0), r"feature 'y' has the zero-width range \[1, 1\]"),
        ((2.0, 0.0), (1.0, 1.0), "feature 'x' has the zero-width range"),
    ],
)
def test_impossible_ranges_are_refused(low: tuple, high: tuple, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Grid((0, 1), ("x", "y"), low, high, (2, 2))

"""Yardsticks of the field against hand-counted truth."""

from __future__ import annotations

import numpy as np
import pytest

from mepol.algorithm import Batch
from mepol.errors import ConfigError
from mepol.estimators import knn_entropy
from mepol.evaluation.assess import Protocol
from mepol.evaluation.yardsticks import find_yardstick, floor_cells, single_trial_entropy
from mepol.neighbours import neighbours


def batch_of(paths: list[list[tuple[float, float]]], lengths: list[int]) -> Batch:
    states = np.array(paths)
    return Batch(states, np.zeros((*states.shape[:1], states.shape[1] - 1, 1), np.float32), np.array(lengths))


def test_cells_are_counted_by_hand() -> None:
    first = [(0.5, 0.5), (0.9, 0.1), (1.1, 0.1), (-0.1, 0.1)]  # (0,0) (0,0) (1,0) (-1,0)
    second = [(0.2, 0.2), (0.2, 1.7), (9.0, 9.0), (9.0, 9.0)]  # (0,0) (0,1), and beyond its end (9,9)
    assert floor_cells(batch_of([first, second], [3, 1]), (0, 1)) == 4
    assert floor_cells(batch_of([first, second], [3, 3]), (0, 1)) == 5
    assert floor_cells(batch_of([first, second], [3, 1]), (0,)) == 3


def test_the_start_counts_and_minus_zero_is_its_own_square() -> None:
    assert floor_cells(batch_of([[(0.0, 0.0), (-0.001, 0.0)]], [1]), (0, 1)) == 2


def test_single_trial_entropy_is_the_mean_over_trajectories() -> None:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(3, 201, 2)) * np.array([1.0, 2.0, 4.0])[:, None, None]
    batch = Batch(states, np.zeros((3, 200, 1), np.float32), np.array([200, 200, 100]))

    class Plane:
        features = (0, 1)
        near = staticmethod(neighbours)

    found = single_trial_entropy(batch, Plane(), Protocol(horizon=200, k=4))  # type: ignore[arg-type]
    truth = [knn_entropy(states[m, 1 : n + 1], 4) for m, n in enumerate((200, 200, 100))]
    assert found == pytest.approx(np.mean(truth), abs=1e-12)


def test_an_unknown_yardstick_is_named() -> None:
    with pytest.raises(ConfigError, match="no yardstick 'furlong'; there are metra, single-trial"):
        find_yardstick("furlong")

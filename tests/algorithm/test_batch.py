"""A batch is checked at birth, and what lies beyond a trajectory's length is not part of it."""

from __future__ import annotations

import numpy as np
import pytest

from mepol import Batch
from mepol.errors import EnvironmentFault


def make(m: int = 2, t: int = 3, s: int = 2, lengths: object = (3, 2)) -> Batch:
    states = np.arange(m * (t + 1) * s, dtype=float).reshape(m, t + 1, s)
    return Batch(states, np.zeros((m, t, 1), dtype=np.float32), np.asarray(lengths, dtype=np.int64))


def test_particles_are_the_states_after_each_step_by_hand() -> None:
    batch = make()
    assert batch.size == 5
    np.testing.assert_array_equal(batch.particles((0, 1)), [[2, 3], [4, 5], [6, 7], [10, 11], [12, 13]])
    np.testing.assert_array_equal(batch.particles((1,)), [[3], [5], [7], [11], [13]])
    np.testing.assert_array_equal(batch.particles((1, 0))[0], [3, 2])


def test_visited_steps_and_states() -> None:
    batch = make()
    np.testing.assert_array_equal(batch.visited(), [[True, True, True], [True, True, False]])
    np.testing.assert_array_equal(batch.visited(include_start=True), [[True] * 4, [True, True, True, False]])


@pytest.mark.parametrize(
    ("states", "actions", "lengths"),
    [
        ((2, 3, 2), (2, 3, 1), (2,)),
        ((2, 4), (2, 3, 1), (2,)),
        ((3, 4, 2), (2, 3, 1), (2,)),
        ((2, 4, 2), (2, 3, 1), (3,)),
        ((2, 4, 2), (2, 3, 1), (2, 1)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(states: tuple, actions: tuple, lengths: tuple) -> None:
    with pytest.raises(EnvironmentFault, match=r"states \(M, T\+1, S\)"):
        Batch(np.zeros(states), np.zeros(actions, dtype=np.float32), np.ones(lengths, dtype=np.int64))


@pytest.mark.parametrize("lengths", [(0, 2), (4, 2), (-1, 3)])
def test_impossible_lengths_are_refused(lengths: tuple[int, int]) -> None:
    with pytest.raises(EnvironmentFault, match=r"length in \[1, 3\]"):
        make(lengths=lengths)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_state_that_is_not_a_number_is_named_unless_never_visited(bad: float) -> None:
    batch = make()
    states = batch.states.copy()
    states[1, 3] = bad  # beyond the second trajectory's length
    Batch(states, batch.actions, batch.lengths)
    states[1, 2, 0] = bad
    with pytest.raises(EnvironmentFault, match="environment 1 returned a NaN or infinite state at step 2"):
        Batch(states, batch.actions, batch.lengths)

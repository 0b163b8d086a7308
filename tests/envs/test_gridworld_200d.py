from __future__ import annotations

import numpy as np
import pytest

from mepol.envs.gridworld import FREE_AREA, GridWorldVectorEnv
from mepol.envs.gridworld_200d import ENTROPY_CEILING, PLANES, GridWorld200VectorEnv


def test_the_ceiling_is_a_hundred_times_that_of_one_plane():
    assert pytest.approx(100 * np.log(FREE_AREA)) == ENTROPY_CEILING
    assert pytest.approx(460.77, abs=0.01) == ENTROPY_CEILING


def test_every_plane_is_the_two_dimensional_gridworld():
    wide, flat = GridWorld200VectorEnv(1), GridWorldVectorEnv(PLANES)
    state = wide.reset(seed=0)[0]
    assert ((state >= -6) & (state <= -4)).all()
    flat.reset(seed=0)
    flat._position = state.reshape(PLANES, 2).copy()
    rng = np.random.default_rng(1)
    for _ in range(1500):
        action = rng.normal(0.02, 0.2, (1, 2 * PLANES))
        state = wide.step(action)[0]
        np.testing.assert_array_equal(state.reshape(PLANES, 2), flat.step(action.reshape(PLANES, 2))[0])
    assert (state > 1.25).any()  # some plane's agent has passed a doorway
    assert len(np.unique(state)) > PLANES


def test_a_wall_in_one_plane_stops_that_plane_alone():
    env = GridWorld200VectorEnv(1)
    before = env.reset(seed=0)[0]
    env._position[0, 7] = -5.95, -5.0
    before = env.observe()
    action = np.full((1, 200), 0.05)
    action[0, 14] = -0.2  # out of plane 8, to the left
    moved = env.step(action)[0] - before
    np.testing.assert_array_equal(moved[0, 14:16], 0.0)
    np.testing.assert_allclose(np.delete(moved[0], [14, 15]), 0.05)
    assert env.feature_names[14:16] == ("x8", "y8")

"""A true mirror is not doubted, a wrong one is: linear worlds of any kind, and MuJoCo's."""

from __future__ import annotations

import dataclasses

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mepol
from mepol.algorithm import Batch, GaussianPolicy, Mirror, Symmetry
from mepol.algorithm.doubt import LOST, doubt
from mepol.envs.ant import FEATURE_NAMES, SYMMETRIES

NAMES = ("x", "y", "left", "right")
TRUE = Symmetry(Mirror.of(NAMES, exchanged={"left": "right"}, turned={"y"}), Mirror((1, 0), (1, 1)))
SIDES = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, -1.0, 0.0, 0.0]])  # what the two actions push: on, and to either side


def turned_too(mirror: Mirror, i: int) -> Mirror:
    """The same mirror, but for the sign of value i (and of the one that it changes places with)."""
    return Mirror(mirror.index, tuple(-s if i in (n, mirror.index[n]) else s for n, s in enumerate(mirror.sign)))


def steps(seed: int, rows: int = 20, long: int = 60, noise: float = 0.1) -> Batch:
    """Trajectories of a linear world that TRUE leaves as it is, with ends of their own."""
    rng = np.random.default_rng(seed)
    drift = -0.05 * np.eye(4)
    drift[2, 2:] += (0.0, 0.02)  # each wheel feels the other, and y
    drift[3, 2:] += (0.02, 0.0)
    drift[2, 1], drift[3, 1] = 0.1, -0.1
    wheels = np.hstack([np.zeros((2, 2)), 0.5 * np.eye(2)])
    states = np.zeros((rows, long + 1, 4))
    actions = rng.normal(size=(rows, long, 2)).astype(np.float32)
    states[:, 0] = rng.normal((3.0, 0.0, 0.0, 0.0), 1.0, (rows, 4))
    for t in range(long):
        pushed = actions[:, t] @ (SIDES + wheels)
        states[:, t + 1] = states[:, t] + states[:, t] @ drift.T + pushed + noise * rng.normal(size=(rows, 4))
    lengths = rng.integers(long // 2, long + 1, rows)
    for row, length in enumerate(lengths):  # what is never read
        states[row, length + 1 :], actions[row, length:] = np.nan, np.nan
    return Batch(states, actions, lengths)


@given(st.integers(0, 2**32 - 1), st.integers(4, 30), st.floats(0.0, 3.0))
def test_a_true_mirror_is_not_doubted(seed: int, rows: int, noise: float) -> None:
    assert doubt(steps(seed, rows, noise=noise), TRUE) is None


@pytest.mark.parametrize(
    ("wrong", "about"),
    [
        (dataclasses.replace(TRUE, states=turned_too(TRUE.states, 0)), {"x"}),
        (dataclasses.replace(TRUE, states=turned_too(TRUE.states, 1)), {"y", "left", "right"}),
        (dataclasses.replace(TRUE, states=turned_too(TRUE.states, 2)), {"left", "right"}),
        (dataclasses.replace(TRUE, actions=turned_too(TRUE.actions, 0)), set(NAMES)),
        (dataclasses.replace(TRUE, actions=Mirror((0, 1), (1, 1))), {"y", "left", "right"}),
        (dataclasses.replace(TRUE, states=Mirror((0, 1, 2, 3), (1, -1, 1, 1))), {"left", "right"}),
    ],
)
def test_a_wrong_one_is_by_a_coordinate_that_it_gets_wrong(wrong: Symmetry, about: set[str]) -> None:
    found = doubt(steps(0), wrong)
    assert found is not None
    assert NAMES[found.coordinate] in about
    assert found.lost > LOST
    assert found.errors > 5


def test_three_trajectories_say_nothing() -> None:
    wrong = dataclasses.replace(TRUE, actions=Mirror((0, 1), (1, 1)))
    assert doubt(steps(0, rows=3), wrong) is None
    assert doubt(steps(0, rows=12), wrong) is not None


@pytest.fixture(scope="module")
def ants() -> Batch:
    policy = GaussianPolicy(29, 8, hidden=(16, 16))
    policy.initialise(np.random.default_rng(0), log_std=-0.5)
    policy.tie(SYMMETRIES)
    env = gymnasium.make_vec("mepol/Ant-v0", 20)
    batch = mepol.collect(policy, env, 200, seed=0)
    env.close()
    return batch


@pytest.mark.parametrize("symmetry", SYMMETRIES)
def test_the_mirrors_of_the_ant_are_true_and_one_wrong_sign_is_seen(ants: Batch, symmetry: Symmetry) -> None:
    assert doubt(ants, symmetry) is None
    for i in range(8):
        assert doubt(ants, dataclasses.replace(symmetry, actions=turned_too(symmetry.actions, i))) is not None
    rotation = [name.startswith("quat") for name in FEATURE_NAMES]  # which is linear in nothing, and may pass
    for i in np.flatnonzero(~np.array(rotation)):
        assert doubt(ants, dataclasses.replace(symmetry, states=turned_too(symmetry.states, int(i)))) is not None

"""Two runs of a second each."""

from __future__ import annotations

import pytest

import mepol

SMALL = {
    **{"horizon": 30, "trajectories": 4, "evaluation_trajectories": 5, "evaluate_every": 1, "hidden": (16, 16)},
    **{
        "log_std": -2.0,
        "mirror": True,
        "k": 4,
        "eps": 1e-15,
        "learning_rate": 1e-4,
        "zero_mean_steps": 5,
        "max_steps": 2,
    },
    **{"threads": 1, "progress": False},
}
CHOOSING = {name: value for name, value in SMALL.items() if name not in ("log_std", "eps")}


@pytest.fixture(scope="session")
def grid_path(tmp_path_factory):
    """A finished run in GridWorld, in raw units. It is shared: who writes gives a path of his own."""
    return mepol.explore("gridworld", epochs=1, out=tmp_path_factory.mktemp("grid") / "run", **SMALL).path


@pytest.fixture(scope="session")
def pendulum_path(tmp_path_factory):
    """A finished run in Pendulum, whose torque of [-2, 2] is reached from [-1, 1]."""
    settings = {**SMALL, "noise_correlation": 0.5}
    return mepol.explore("Pendulum-v1", epochs=1, out=tmp_path_factory.mktemp("pendulum") / "run", **settings).path


@pytest.fixture
def grid(grid_path):
    return mepol.open(grid_path)


@pytest.fixture
def pendulum(pendulum_path):
    return mepol.open(pendulum_path)


@pytest.fixture(scope="session")
def cart_path(tmp_path_factory):
    """A finished run in CartPole, whose actions are two."""
    return mepol.explore("CartPole-v1", epochs=1, out=tmp_path_factory.mktemp("cart") / "run", **CHOOSING).path


@pytest.fixture
def cart(cart_path):
    return mepol.open(cart_path)

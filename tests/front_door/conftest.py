"""A finished run of a few seconds, which the examples of the front door open as `runs/gridworld`."""

from __future__ import annotations

import shutil

import pytest

import mepol

SMALL = {
    "horizon": 60,
    "trajectories": 4,
    "evaluation_trajectories": 5,
    "evaluate_every": 1,
    "hidden": (16, 16),
    "log_std": -1.5,
    "k": 4,
    "eps": 1e-15,  # walls stop several agents in one place
    "learning_rate": 1e-4,
    "zero_mean_steps": 5,
    "max_steps": 3,
    "threads": 1,
    "progress": False,
}
"""Settings of a run that takes well under a second."""


@pytest.fixture(scope="session")
def small():
    return dict(SMALL)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The directory of a finished run of two epochs. It is shared: who changes it works on `here`."""
    path = tmp_path_factory.mktemp("door") / "runs" / "gridworld"
    mepol.explore("gridworld", epochs=2, out=path, **SMALL)
    return path


@pytest.fixture
def here(finished, tmp_path, monkeypatch):
    """A working directory of one's own with that run in it."""
    shutil.copytree(finished, tmp_path / "runs" / "gridworld")
    monkeypatch.chdir(tmp_path)
    return tmp_path

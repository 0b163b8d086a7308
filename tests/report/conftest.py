"""Runs to show, and one headless Chromium to show them in."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser, started

import mepol
from mepol.run import Run

SMALL: dict[str, Any] = {
    **{"horizon": 60, "trajectories": 4, "evaluation_trajectories": 5, "evaluate_every": 2, "hidden": (16, 16)},
    **{"log_std": -1.5, "k": 4, "eps": 1e-15, "learning_rate": 1e-3, "zero_mean_steps": 5, "max_steps": 3},
    **{"threads": 1, "progress": False},
}
"""Settings of a run of well under a second."""


@pytest.fixture(scope="session")
def small() -> dict[str, Any]:
    return dict(SMALL)


@pytest.fixture(scope="session")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished exploration of four epochs, of which three policies were measured. It is shared: only look at it."""
    return mepol.explore("gridworld", epochs=4, out=tmp_path_factory.mktemp("report") / "grid-a", **SMALL)


@pytest.fixture
def copied(explored: Run, tmp_path: Path) -> Callable[..., Path]:
    """A copy of that run called `name`, whose config.json has `changes`."""

    def make(name: str = "copy", **changes: Any) -> Path:
        path = tmp_path / name
        shutil.copytree(explored.path, path)
        if changes:
            settings = json.loads((path / "config.json").read_text())
            (path / "config.json").write_text(json.dumps({**settings, **changes}))
        return path

    return make


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    """A fine-tuning of three iterations as its tables tell it; no learner was at work."""
    run = mepol.finetune(
        "grid-goal1", horizon=20, iterations=1, hidden=(8,), threads=1, out=tmp_path / "tuned", progress=False,
        **{"trpo.steps": 40},
    )  # fmt: skip
    return run.path


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One Chromium for all tests, as Debian's packages chromium and chromium-driver have it (`make browser`)."""
    chromium = Browser(started(tmp_path_factory.mktemp("chromium")))
    try:
        yield chromium
    finally:
        chromium.driver.quit()

"""What is proposed for an environment, and that it can be explored with."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

import mepol
from mepol.cli import main
from mepol.estimators import knn_entropy
from mepol.exploration.calibrate import CORRELATIONS, LOG_STDS, calibrate
from mepol.exploration.presets import starting_config
from mepol.settings import with_settings


def test_the_proposal_is_the_best_of_what_was_tried() -> None:
    config = with_settings(starting_config("Pendulum-v1"), {"horizon": 60})
    said: list[str] = []
    found = calibrate(config, progress=lambda done, total, text: said.append(text))
    assert len(said) == 1 + len(CORRELATIONS) * len(LOG_STDS)
    assert found.steps == 600 * len(said)
    assert found.settings["features"] == "angle(0,1),2"
    assert found.settings["k"] == 15  # an angle and a speed, 3000 particles
    assert found.settings["horizon"] == 60
    chosen = found.settings["noise_correlation"], found.settings["log_std"]
    indices = {}
    for noise in ((0.0, -0.5), chosen):
        settings = {"noise_correlation": noise[0], "log_std": noise[1], "horizon": 60, "epochs": 0}
        run = mepol.explore("Pendulum-v1", evaluation_trajectories=100, progress=False, **settings)
        indices[noise] = run.metrics["index"][0]
    assert max(indices, key=lambda noise: indices[noise]) == chosen  # on ten times as many trajectories


def test_calibrate_writes_what_explore_and_sweep_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["calibrate", "MountainCarContinuous-v0", "--horizon", "50", "--write", "car.toml"]) == 0
    shown = capsys.readouterr().out
    assert "noise_correlation" in shown
    settings = tomllib.loads(Path("car.toml").read_text())["settings"]
    small = ["--epochs", "1", "--trajectories", "10", "--evaluation-trajectories", "10"]
    assert main(["explore", "car.toml", *small]) == 0
    run = mepol.open("runs/car-seed-0")
    assert run.config.policy.noise_correlation == settings["noise_correlation"]
    assert run.config.horizon == 50
    assert main(["calibrate", "MountainCarContinuous-v0", "--write", "car.toml"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["explore", "car.toml", "--fast"]) == 2
    assert main(["calibrate", "ant"]) == 2
    assert "is a preset" in capsys.readouterr().err


def test_the_index_of_a_run_is_that_of_its_units(tmp_path: Path) -> None:
    """In units of 2 and 5 and back: the estimate of a density does not know the units of its axes, but its metric."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(400, 2)) * (2.0, 5.0)
    run = mepol.explore(
        "Pendulum-v1", epochs=0, horizon=30, evaluation_trajectories=5, progress=False, out=tmp_path / "r"
    )
    domain = run.domain
    from dataclasses import replace

    from mepol.estimators import entropy

    scaled = replace(domain, widths=(2.0, 5.0), floor=0.0)
    truth = knn_entropy(points / (2.0, 5.0), 4) + np.log(10.0)
    assert entropy(scaled.near(points, 4)) == pytest.approx(truth, abs=1e-12)

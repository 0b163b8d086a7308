"""k = 0: an exploration that begins settles its neighbours by the number of its features, and keeps that number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mepol
from mepol.cli import main
from mepol.errors import ConfigError
from mepol.exploration.presets import starting_config

SHORT: dict[str, Any] = {"epochs": 1, "horizon": 100, "trajectories": 20, "evaluation_trajectories": 4, "hidden": (8,)}


@pytest.mark.parametrize(
    ("settings", "k"),
    [
        ({}, 10),  # an angle and a speed, 2000 particles
        ({"features": "2"}, 10),
        ({"features": "all"}, 4),  # cosine, sine and speed
        ({"features": lambda states: states[:, :2]}, 4),  # nobody counted what a function gives
        ({"trajectories": 60, "horizon": 200}, 50),  # and not 60
        ({"trajectories": 20, "horizon": 20}, 4),  # and not 2
        ({"trajectories": 2, "horizon": 2}, 3),  # one less than the particles of a batch
        ({"evaluation_trajectories": 1, "horizon": 3}, 2),
        ({"k": 7}, 7),
    ],
)
def test_as_many_as_the_features_ask_for(settings: dict[str, Any], k: int) -> None:
    run = mepol.explore("Pendulum-v1", progress=False, **{**SHORT, **settings})
    assert run.config.ascent.k == k
    assert run.evaluate(trajectories=2).evaluation.index is not None


def test_a_preset_has_its_own() -> None:
    assert starting_config("Pendulum-v1").ascent.k == 0
    assert starting_config("mountain-car").ascent.k == 4
    assert starting_config("gridworld", quick=True).ascent.k == 50


def test_it_is_told_and_kept_through_a_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "run")
    small = ["--epochs", "1", "--horizon", "100", "--trajectories", "20", "--evaluation-trajectories", "4"]
    assert main(["explore", "Pendulum-v1", *small, "--out", out]) == 0
    assert "k = 10 neighbours: many, since the entropy is of 2 features; --k sets it" in capsys.readouterr().out
    assert mepol.resume(out, length=2, progress=False).config.ascent.k == 10
    assert main(["resume", out, "--epochs", "3", "--k", "0"]) == 2
    assert "k = 0 is not possible" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="only a new run leaves it to the features"):
        mepol.resume(out, length=3, k=0, progress=False)


def test_a_sweep_knows_its_runs_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["epochs=1", "horizon=100", "trajectories=20", "evaluation_trajectories=4", "threads=1"]
    sweep = ["sweep", "Pendulum-v1", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path), "--set", *small]
    assert main(sweep) == 0
    before = [(path, path.stat().st_mtime_ns) for path in tmp_path.glob("*/metrics.csv")]
    assert len(before) == 1
    assert main(sweep) == 0  # done already
    assert before == [(path, path.stat().st_mtime_ns) for path in tmp_path.glob("*/metrics.csv")]
    capsys.readouterr()
    assert main([*sweep, "k=4"]) == 1
    assert "it holds a run with k = 10, and the study has 4" in capsys.readouterr().err


def test_several_environments_settle_it_once() -> None:
    worlds = [{"env": "Pendulum-v1", "env_kwargs": {"g": g}, "probability": 0.5} for g in (5.0, 10.0)]
    settings = {**SHORT, "world_trajectories": 10, "kl_threshold": 100.0}
    assert mepol.explore(envs=worlds, progress=False, **settings).config.ascent.k == 5  # of the 1000 of a mini-batch

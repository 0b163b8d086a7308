"""Pictures from the command line: painted ones, those of an environment's own, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mepol
from mepol.cli import main

SMALL = [
    *("--horizon", "12", "--trajectories", "3", "--k", "3", "--max-steps", "2", "--threads", "1", "--seed", "3"),
    *("--epochs", "1", "--hidden", "8", "8", "--evaluation-trajectories", "3"),
]
CAMERA = f"{Path(__file__).parents[1] / 'camera.py'}:Camera"


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main([*arguments, *SMALL, "--out", "none"]) != 0
    err = capsys.readouterr().err
    assert (err.startswith("mepol: "), err.count("\n"), Path("none").exists()) == (True, 1, False)
    return err


def test_a_domain_is_explored_from_its_pictures_and_measured_on_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explore", "mountain-car", "--fast", "--observations", "pixels", *SMALL, "--out", "run"]) == 0
    told = capsys.readouterr().out
    assert "of the true state behind the pictures" in told
    assert main(["evaluate", "run", "--trajectories", "3", "--pairs", "velocity,position", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"index", "true_index", "cells", "cells[velocity,position]"} <= set(found)
    assert main(["heatmaps", "run", "--trajectories", "3", "--axes", "position,velocity", "--replace"]) == 0
    assert main(["goals", "run", "--trajectories", "3"]) == 0
    assert main(["video", "run", "--steps", "2", "--out", "film.gif"]) == 0
    assert main(["resume", "run", "--epochs", "2"]) == 0
    assert len(mepol.open("run").metrics["epoch"]) == 3
    capsys.readouterr()
    assert main(["export", "run", "--to", "numpy"]) != 0
    assert "reads pictures (21, 21, 3) cannot be exported" in capsys.readouterr().err


def test_a_gymnasium_environment_is_explored_by_what_it_renders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("pygame")
    view = ["--wrapper", "gymnasium.wrappers:AddRenderObservation", "--env-arg", "render_mode=rgb_array"]
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    assert main(["explore", "CartPole-v1", "--encoder", "random", *view, *SMALL, "--out", "run"]) == 0
    run = mepol.open("run")
    assert run.domain.picture is not None
    assert (run.domain.picture.source, run.domain.picture.shape) == ((400, 600, 3), (22, 32, 3))
    assert np.isfinite(run.metrics["index"]).all()
    assert run.policy.act(np.zeros((400, 600, 3), np.uint8), np.random.default_rng(0)).shape == (1,)


def test_what_is_refused_is_one_sentence_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "is a picture, (9, 9, 3) uint8: --encoder random takes" in refused(["explore", CAMERA], capsys)
    assert "needs one picture" in refused(["explore", "Pendulum-v1", "--encoder", "random"], capsys)
    assert "GridWorld and MountainCar are painted" in refused(["explore", "ant", "--observations", "pixels"], capsys)
    told = refused(["explore", "gridworld", "--observations", "pixels", "--features", "x"], capsys)
    assert "features = x is not possible" in told
    told = refused(["explore", "gridworld", "--observations", "pixels", "--explorer", "rnd"], capsys)
    assert "with the explorer rnd" in told

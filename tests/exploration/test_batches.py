"""Runs with a curriculum of the horizon and with earlier batches: stopped anywhere they go on to the same bits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same import Stopped, assert_same_run, stop_after

import mepol
from mepol.cli import main
from mepol.errors import ConfigError, MepolWarning, RunError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import explore, resume
from mepol.exploration.rows import EXPLORE
from mepol.settings import with_settings

EPOCHS = 6
CASES: dict[str, dict[str, Any]] = {
    "reuse": {"reuse": 3},
    "curriculum": {"horizon_start": 15, "rule": "advantage", "critic_steps": 3},
    "both": {"horizon_start": 20, "reuse": 2},
}
STOPS = (0, 2, 3, 4, 6)  # a horizon may first grow after the fourth epoch


@pytest.fixture(scope="module")
def settings(tiny: Callable) -> Callable[..., ExploreConfig]:
    def make(**changes: Any) -> ExploreConfig:
        own = {"epochs": EPOCHS, "evaluate_every": 1, "checkpoint_epochs": 1, "hidden": (8,)}
        return with_settings(tiny(), {**own, **changes})

    return make


@pytest.fixture(scope="module")
def whole(settings: Callable, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each case that nothing stopped."""
    folder = tmp_path_factory.mktemp("whole")
    return {name: explore(settings(**changes), folder / name).path for name, changes in CASES.items()}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("epoch", STOPS)
def test_a_run_stopped_after_any_epoch_goes_on_to_the_same_bits(
    case: str, epoch: int, settings: Callable, whole: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(Stopped):
        explore(settings(**CASES[case]), tmp_path / "run", callbacks=(stop_after(epoch),))
    resume(tmp_path / "run")
    older = tuple(f"replay/epoch-{e:05d}.safetensors" for e in range(EPOCHS))  # kept while a checkpoint needs them
    assert_same_run(tmp_path / "run", whole[case], but=older)


def test_the_horizon_grows_and_samples_stay(whole: dict[str, Path]) -> None:
    run = mepol.open(whole["curriculum"])
    table = run.metrics
    horizons = table["horizon"][:-1].tolist()
    assert horizons == [15] * 4 + [30] * 2
    assert np.diff(table["samples"]).tolist() == [240] * EPOCHS
    assert np.isnan(table["horizon"][-1])
    assert run.protocol.horizon == 60


def test_evaluations_have_the_final_horizon(settings: Callable, whole: dict[str, Path], tmp_path: Path) -> None:
    """The first policy is the same with and without a curriculum, and so is what is measured of it."""
    plain = explore(settings(epochs=0, rule="advantage"), tmp_path / "plain")
    ours, theirs = mepol.open(whole["curriculum"]).metrics, mepol.open(plain.path).metrics
    for column in ("index", "discrete_entropy", "pooled_entropy", "cells"):
        assert ours[column][0] == theirs[column][0]


def test_batches_are_counted_and_samples_are_of_the_new_one(whole: dict[str, Path]) -> None:
    table = mepol.open(whole["reuse"]).metrics
    assert table["batches"][:-1].tolist() == [1, 2] + [3] * (EPOCHS - 2)
    assert np.diff(table["samples"]).tolist() == [240] * EPOCHS
    assert table["ess"][3] > 240  # more than any one batch holds
    parts = sorted(path.name for path in (whole["reuse"] / "replay").iterdir())
    assert parts[-2:] == ["epoch-00005.safetensors", "epoch-00006.safetensors"]


def test_the_first_epoch_of_a_reuse_is_that_of_a_plain_run(
    settings: Callable, whole: dict[str, Path], tmp_path: Path
) -> None:
    plain = mepol.open(explore(settings(), tmp_path / "plain").path).metrics
    ours = mepol.open(whole["reuse"]).metrics
    for column in ("entropy", "kl", "ess"):
        assert ours[column][0] == plain[column][0]
    assert ours["entropy"][1] != plain["entropy"][1]
    assert np.isnan(plain["batches"]).all()
    assert np.isnan(plain["horizon"]).all()


def test_a_reuse_that_collapses_drops_batches_and_says_so(settings: Callable, tmp_path: Path) -> None:
    """Steps so large that no path of one policy is likely under the next."""
    told: list[str] = []
    config = settings(epochs=4, reuse=3, learning_rate=0.3, kl_threshold=1e6, horizon=200, trajectories=3)
    with pytest.warns(MepolWarning):  # the weights collapse within an epoch, too
        run = explore(config, tmp_path / "run", tell=told.append)
    table = mepol.open(run.path).metrics
    assert table["batches"][:-1].tolist() == [1] * 4
    assert len(told) == 1
    assert told[0].startswith("epoch 1: 1 earlier batches were dropped")
    assert EXPLORE.details is not None
    lines = EXPLORE.details.read(run.path / "steps.csv")
    dropped = [(line.epoch, line.step, line.accepted, line.entropy) for line in lines if line.step < 0]
    assert dropped == [(epoch, -2, 0, None) for epoch in (1, 2, 3)]
    assert all(600 <= line.ess < 660 for line in lines if line.step < 0)
    assert mepol.open(run.path).finished


def test_a_missing_batch_is_named(settings: Callable, whole: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(whole["reuse"], tmp_path / "run")
    for part in (tmp_path / "run" / "replay").iterdir():
        part.unlink()
    with pytest.warns(MepolWarning, match="a part of a replay memory"), pytest.raises(RunError, match="no checkpoint"):
        resume(tmp_path / "run", length=EPOCHS + 1)


def test_another_batch_is_refused(whole: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(whole["reuse"], tmp_path / "run")
    parts = sorted((tmp_path / "run" / "replay").iterdir())
    shutil.copy(parts[-1], parts[-2])
    with pytest.warns(MepolWarning, match="not the part"), pytest.raises(RunError, match="no checkpoint"):
        resume(tmp_path / "run", length=EPOCHS + 1)


BAD = {
    "horizon_start = 60 is not possible: it must be below the horizon, 60 steps": {"horizon_start": 60},
    "horizon_start = -1 is not possible: it must be at least 0": {"horizon_start": -1},
    "horizon_start = 5 is not possible: it must be 0 with the explorer random": {
        "horizon_start": 5,
        "explorer": "random",
    },
    "reuse = 0 is not possible: it must be from 1 to 100": {"reuse": 0},
    "reuse = 2 is not possible: it must be 1 with the rule 'advantage'": {"reuse": 2, "rule": "advantage"},
    "reuse = 2 is not possible: it must be 1 with several policies": {"reuse": 2, "policies": 2},
    "reuse = 2 is not possible: it must be 1 with an objective that was handed in": {
        "reuse": 2,
        "objective": "given:mine",
    },
    "reuse = 2 is not possible: it must be 1 with the explorer uniform": {"reuse": 2, "explorer": "uniform"},
}


@pytest.mark.parametrize("sentence", BAD)
def test_what_is_not_possible_is_said_in_a_sentence(sentence: str, settings: Callable) -> None:
    with pytest.raises(ConfigError) as fault:
        settings(**BAD[sentence])
    assert sentence in str(fault.value)


def test_nothing_is_written_where_a_flag_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["explore", "ant", "--fast", "--reuse", "2", "--out", str(out)]) == 2
    assert "it must be 1 with the rule 'advantage', which weighs no paths" in " ".join(capsys.readouterr().err.split())
    assert main(["explore", "gridworld", "--horizon-start", "5000", "--out", str(out)]) == 2
    assert "below the horizon, 1200 steps" in " ".join(capsys.readouterr().err.split())
    assert not out.exists()

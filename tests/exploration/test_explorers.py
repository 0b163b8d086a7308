"""Explorers that do not learn leave a run directory like any other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mepol.cli import main
from mepol.errors import ConfigError
from mepol.exploration.explorers import explore, is_finished, load_actor, resume
from mepol.runs.directory import Run
from mepol.sampling.actors import UniformActor

SMALL = [
    "--horizon",
    "60",
    "--zero-mean-steps",
    "5",
    "--evaluation-trajectories",
    "5",
    "--hidden",
    "8",
    "--threads",
    "1",
]


@pytest.mark.parametrize("explorer", ["random", "uniform"])
def test_a_run_that_learns_nothing_has_one_row(explorer: str, tiny: Callable, tmp_path: Path) -> None:
    run = explore(tiny(explorer=explorer), tmp_path / "run")
    (row,) = run.rows()
    assert (row.epoch, row.samples, row.entropy) == (0, 0, None)
    assert row.index is not None
    assert run.load_visits(0).sum() == 5 * 60
    assert is_finished(run)
    assert resume(run.path).rows() == [row]
    with pytest.raises(ConfigError, match="epochs = 3"):
        resume(run.path, epochs=3)


def test_random_is_the_policy_that_mepol_starts_from(tiny: Callable, tmp_path: Path) -> None:
    ours = explore(tiny(), tmp_path / "mepol").rows()[0]
    random = explore(tiny(explorer="random"), tmp_path / "random")
    assert random.rows()[0].index == ours.index
    assert random.policy_path.read_bytes() == (tmp_path / "mepol" / "initial.safetensors").read_bytes()
    assert load_actor(random).widths == (2, 16, 16, 2)


def test_a_run_that_was_killed_before_its_row_is_measured_again(tiny: Callable, tmp_path: Path) -> None:
    config = tiny(explorer="uniform")
    whole = explore(config, tmp_path / "whole")
    half = Run.create(tmp_path / "half", config)
    assert not is_finished(half)
    assert resume(half.path).rows() == whole.rows()


def test_uniform_actions_come_from_the_action_space(tiny: Callable, tmp_path: Path) -> None:
    actor = load_actor(explore(tiny(explorer="uniform"), tmp_path / "run"))
    assert isinstance(actor, UniformActor)
    np.testing.assert_allclose([actor.low, actor.high], [[-0.2, -0.2], [0.2, 0.2]], rtol=1e-6)


def test_the_command_line_explores_evaluates_and_names_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explore", "mountain-car", "--explorer", "uniform", *SMALL]) == 0
    run = "runs/mountain-car-uniform-seed-0"
    assert run in capsys.readouterr().out
    assert main(["evaluate", run, "--trajectories", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["particles"] == 240
    assert main(["resume", run]) == 0
    assert len(Run.open(tmp_path / run).rows()) == 1

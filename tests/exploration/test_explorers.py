"""Explorers that do not learn leave a run directory like any other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from same import assert_same_run

from mepol.cli import main
from mepol.errors import ConfigError
from mepol.exploration.drive import explore, resume
from mepol.exploration.explorers import explorer_kind
from mepol.exploration.rows import EXPLORE
from mepol.exploration.workshop import open_workshop
from mepol.runs.directory import RunDirectory
from mepol.runs.policies import load_policy
from mepol.sampling.actors import Mixture

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
    assert run.is_finished
    assert resume(run.path).rows() == [row]
    with pytest.raises(ConfigError, match="epochs = 3"):
        resume(run.path, length=3)


def test_random_is_the_policy_that_mepol_starts_from(tiny: Callable, tmp_path: Path) -> None:
    ours = explore(tiny(), tmp_path / "mepol").rows()[0]
    random = explore(tiny(explorer="random"), tmp_path / "random")
    assert random.rows()[0].index == ours.index
    assert random.policy_path().read_bytes() == (tmp_path / "mepol" / "initial.safetensors").read_bytes()
    assert load_policy(random.policy_path()).widths == (2, 16, 16, 2)


def test_a_run_that_was_killed_before_its_row_is_measured_again(tiny: Callable, tmp_path: Path) -> None:
    config = tiny(explorer="uniform")
    whole = explore(config, tmp_path / "whole")
    with open_workshop(config) as workshop:
        initial = explorer_kind("uniform").make(workshop).policy_bytes()
        with RunDirectory.create(tmp_path / "half", EXPLORE, config, workshop.domain.to_json(), initial) as half:
            assert not half.is_finished
    resume(half.path)
    assert_same_run(half.path, whole.path)


def test_uniform_actions_come_from_the_action_space(tiny: Callable, tmp_path: Path) -> None:
    actor = load_policy(explore(tiny(explorer="uniform"), tmp_path / "run").policy_path())
    assert isinstance(actor, Mixture)  # of nothing but uniform actions: it is stored and loaded like any other
    assert actor.policies == ()
    np.testing.assert_allclose([actor.uniform.low, actor.uniform.high], [[-0.2, -0.2], [0.2, 0.2]], rtol=1e-6)
    drawn = actor.act(np.zeros((2000, 2)), np.random.default_rng(0))
    np.testing.assert_allclose([drawn.min(0), drawn.max(0)], [[-0.2, -0.2], [0.2, 0.2]], atol=1e-3)


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
    assert len(RunDirectory.open(tmp_path / run).rows()) == 1

"""A fine-tuning from Python starts from the policy that was asked for, in the units it was learnt in."""

from __future__ import annotations

from pathlib import Path

import pytest

import mepol

SIZES = {"horizon": 20, "trajectories": 4, "evaluation_trajectories": 4, "hidden": (8,)}
SHORT = {**SIZES, "threads": 1, "progress": False}
TASK = {"iterations": 0, "horizon": 20, "trpo.steps": 40, "threads": 1, "progress": False}


@pytest.mark.parametrize("which", ["last", "best", "initial"])
@pytest.mark.parametrize("by_path", [False, True])
def test_the_policy_that_was_asked_for_is_the_start(tmp_path: Path, which: str, by_path: bool) -> None:
    run = mepol.explore("gridworld", epochs=2, k=4, eps=1e-9, learning_rate=1e-2, out=tmp_path / "run", **SHORT)
    init = str(run.path) if by_path else run
    task = mepol.finetune("grid-goal1", init=init, which=which, out=tmp_path / "task", **TASK)
    ours, theirs = task.initial.state_dict(), run.load(which).state_dict()
    assert all(bool((ours[name] == theirs[name]).all()) for name in theirs)
    assert any(bool((run.initial.state_dict()[name] != run.policy.state_dict()[name]).any()) for name in theirs)


@pytest.mark.parametrize("unit_actions", [False, True])
def test_actions_keep_the_units_of_the_exploration(tmp_path: Path, unit_actions: bool) -> None:
    run = mepol.explore("Pendulum-v1", epochs=0, unit_actions=unit_actions, out=tmp_path / "run", **SHORT)
    task = mepol.finetune(lambda states: states[:, 0] > 2, init=run, out=tmp_path / "task", **TASK)
    assert task.config.unit_actions is unit_actions

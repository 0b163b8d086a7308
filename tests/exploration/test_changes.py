"""A run that coinciding particles ended is rescued by another k or eps, and says so from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import mepol
from mepol.cli import main
from mepol.errors import CoincidentParticlesError, ConfigError
from mepol.estimators import knn_entropy
from mepol.exploration.drive import resume
from mepol.exploration.workshop import Given
from mepol.runs.changes import Change, changes_of, note_changes
from mepol.runs.drive import best_kept

SHORT = {
    "coinciding": "refuse",
    "paper_rule": True,
    "horizon": 30,
    "trajectories": 4,
    "evaluation_trajectories": 4,
    "hidden": (8,),
    "threads": 1,
    "progress": False,
}


class Room(gymnasium.Env[Any, Any]):
    """A square with walls, in which all start in one corner; `Room.sticky` steps in, they are stuck there."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    sticky = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place = self.np_random.uniform(0.3, 0.7, 2)
        return self.place.astype(np.float32), {}

    def step(self, action: Any) -> Any:
        self.place = np.clip(self.place + 0.05 * np.asarray(action), 0.0, 1.0) * (not Room.sticky)
        return self.place.astype(np.float32), 0.0, False, False, {}


@pytest.fixture
def died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that learnt for one epoch before all its particles came to lie in one place."""

    def trap(progress: Any) -> None:
        Room.sticky = progress.turn == 1

    monkeypatch.setattr(Room, "sticky", False)
    with pytest.raises(CoincidentParticlesError):
        mepol.explore(Room, epochs=3, k=4, evaluate_every=1, callbacks=[trap], out=tmp_path / "run", **SHORT)
    return tmp_path / "run"


def test_it_goes_on_with_another_eps_from_where_it_died(died: Path) -> None:
    with pytest.raises(CoincidentParticlesError):
        mepol.resume(died, env=Room, progress=False)
    before = mepol.open(died, env=Room)
    assert changes_of(before.directory) == []
    run = mepol.resume(died, env=Room, k=6, eps=1e-3, progress=False)
    assert run.metrics["epoch"].tolist() == [0, 1, 2, 3]
    assert (run.config.ascent.k, run.config.ascent.eps) == (6, 1e-3)
    assert changes_of(run.directory) == [Change(2, "k", 4.0, 6.0), Change(2, "eps", 0.0, 1e-3)]
    # All N = 4 x 30 particles lie in one place: every ball has the volume eps alone, and Eq. 1 is
    # ln eps + ln N - psi(k), each particle being one of N (docs/method/algorithm.md).
    assert run.metrics["index"][-1] == pytest.approx(knn_entropy(np.zeros((120, 2)), 6, eps=1e-3))
    assert run.protocol.k == 6


def test_the_best_so_far_is_measured_again_with_what_is_new(died: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = best_kept(mepol.open(died).directory)
    monkeypatch.setattr(Room, "sticky", False)
    run = mepol.resume(died, length=2, env=Room, k=8, progress=False)
    after = best_kept(run.directory)
    assert before is not None
    assert after is not None
    found = dict(zip(run.metrics["epoch"].tolist(), run.metrics["index"].tolist(), strict=True))
    # Whoever is best now has a score with k = 8: that of its row, or if it came before the change another one.
    assert after[1] == found[2] if after[0] == 2 else after[1] != before[1]


def test_what_cannot_be_changed_is_refused(died: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="horizon cannot be changed on the way: only k and eps can"):
        resume(died, changes={"horizon": 9}, given=Given(env=Room))
    with pytest.raises(ConfigError, match="k = 120 is not possible"):
        resume(died, changes={"k": 120}, given=Given(env=Room))
    task = {"horizon": 20, "trpo.steps": 40, "threads": 1, "hidden": (8,), "iterations": 0, "progress": False}
    mepol.finetune("grid-goal1", out=tmp_path / "task", **task)
    assert main(["resume", str(tmp_path / "task"), "--k", "5"]) == 2
    assert "climbs no entropy" in capsys.readouterr().err


def test_the_command_line_says_what_no_longer_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mepol.explore("Pendulum-v1", epochs=1, k=4, out=tmp_path / "run", **SHORT)
    assert main(["resume", str(tmp_path / "run"), "--epochs", "2", "--k", "5", "--eps", "0"]) == 0
    text = capsys.readouterr().out
    assert "k is 5 from epoch 1 on, 4 before" in text
    assert "does not equal" in text
    assert (tmp_path / "run" / "changes.csv").read_text() == "turn,setting,before,after\n1,k,4,5\n"


def test_a_change_holds_from_where_a_run_was_taken_back_to(tmp_path: Path) -> None:
    run = mepol.explore("Pendulum-v1", epochs=0, k=4, out=tmp_path / "run", **SHORT).directory
    note_changes(run, 9, [Change(9, "k", 4.0, 5.0)])
    note_changes(run, 7, [Change(7, "eps", 0.0, 1.0)])
    assert changes_of(run) == [Change(7, "k", 4.0, 5.0), Change(7, "eps", 0.0, 1.0)]


@pytest.mark.parametrize("explorer", ["maxent", "random", "uniform"])
@pytest.mark.parametrize("name", ["policy", "rule", "objective"])
def test_an_object_that_the_explorer_ignores_is_refused(explorer: str, name: str) -> None:
    settings = {name: "advantage" if name == "rule" else lambda *_: None}
    with pytest.raises(ConfigError, match=f"{name} is not possible beside explorer = '{explorer}', which ignores it"):
        mepol.explore("gridworld", explorer=explorer, **settings, **SHORT)

"""Heatmaps of a run that was made without them: from its policies, on fresh trajectories."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import mepol
from mepol.cli import main
from mepol.commands.heatmaps import chosen_grid, policies
from mepol.evaluation.visits import visit_counts

SHORT = {
    "horizon": 30,
    "trajectories": 4,
    "evaluation_trajectories": 4,
    "hidden": (8,),
    "threads": 1,
    "progress": False,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short exploration."""
    path = tmp_path_factory.mktemp("heat") / "run"
    mepol.explore("Pendulum-v1", epochs=2, k=4, evaluate_every=1, out=path, **SHORT)
    return path


@pytest.fixture
def bare(made: Path, tmp_path: Path) -> Path:
    """The same without grid and visits, as a run of unbounded coordinates is left."""
    run = Path(shutil.copytree(made, tmp_path / "run"))
    shutil.rmtree(run / "heatmaps")
    domain = run / "domain.json"
    domain.write_text(json.dumps(json.loads(domain.read_text()) | {"grid": None, "reachable": None}))
    return run


def test_they_are_the_visits_of_the_policies_that_there_are(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heatmaps", str(bare), "--axes", "0:-1:1:8,2:-4:4:6", "--trajectories", "7", "--seed", "3"]) == 0
    run = mepol.open(bare)
    grid = run.domain.grid
    assert grid is not None
    assert (grid.axes, grid.low, grid.high, grid.bins) == ((0, 2), (-1.0, -4.0), (1.0, 4.0), (8, 6))
    turns = policies(run)
    assert run.directory.evaluated_turns() == list(turns)
    assert (turns[0], turns[2]) == ("initial", "last")
    for turn, which in turns.items():
        with run.working(7) as env:
            truth = visit_counts(run.rollout(env, which=which, seed=3), grid).sum(axis=0)
        np.testing.assert_array_equal(run.directory.load_visits(turn), truth)
        assert truth.sum() == 7 * 30
        with Image.open(bare / "heatmaps" / f"epoch-{turn:05d}.png") as picture:
            assert picture.format == "PNG"
    assert "coverage.png" in capsys.readouterr().out
    assert main(["animate", str(bare)]) == 0
    assert f"{len(turns)} frames" in capsys.readouterr().out
    assert main(["goals", str(bare), "--trajectories", "4"]) == 0
    assert "over 48 goals" in capsys.readouterr().out
    assert main(["heatmaps", str(bare)]) == 1
    assert "--replace" in capsys.readouterr().err
    assert main(["heatmaps", str(bare), "--axes", "1,2", "--trajectories", "4", "--replace"]) == 0
    # The range and bins of a coordinate that the run's grid had stay; the other's are the space's.
    assert {visits.shape for visits in map(mepol.open(bare).directory.load_visits, turns)} == {(20, 6)}
    # A run that then goes on stores visits to the same grid.
    mepol.resume(bare, length=3, progress=False)
    assert mepol.open(bare).directory.load_visits(3).shape == (20, 6)


def test_animate_and_goals_do_without(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (bare / "domain.json").read_bytes()
    assert main(["animate", str(bare)]) == 0
    assert "has stored no visits: 0:-1:1:20,1:-1:1:20" in capsys.readouterr().out
    assert main(["goals", str(bare), "--trajectories", "4", "--axes", "0:0:1:3,1:0:1:2"]) == 0
    assert "over 6 goals" in capsys.readouterr().out
    assert (bare / "domain.json").read_bytes() == before


def test_a_range_that_nobody_knows_is_that_of_the_states(made: Path) -> None:
    run = mepol.open(made)
    wide = np.full(3, np.inf)
    domain = dataclasses.replace(run.domain, grid=None, low=-wide, high=wide, features=(2, 0))
    with run.working(3) as env:
        batch = run.rollout(env)
    grid = chosen_grid(domain, "", [batch])
    seen = batch.states[:, 1:].reshape(-1, 3)
    assert grid.axes == (2, 0)
    assert (grid.low, grid.high) == ((seen[:, 2].min(), seen[:, 0].min()), (seen[:, 2].max(), seen[:, 0].max()))
    batch.states[..., 0] = 0.25  # one that never moves
    assert chosen_grid(domain, "", [batch]).low[1] == -0.25


# --- one coordinate -----------------------------------------------------------------------------------------------

RAIL = """
import gymnasium, numpy as np
from gymnasium.spaces import Box
class Rail(gymnasium.Env):
    feature_names = ("along",)
    observation_space, action_space = Box(-2.0, 2.0, (1,), np.float64), Box(-1.0, 1.0, (1,))
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.normal(0, 0.1, 1)
        return self.at.copy(), {}
    def step(self, action):
        self.at = np.clip(self.at + 0.2 * action + self.np_random.normal(0, 0.02, 1), -2, 2)
        return self.at.copy(), 0.0, False, False, {}
"""


def test_of_one_coordinate_it_is_a_histogram(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rail.py").write_text(RAIL)
    sizes = ["--horizon", "30", "--trajectories", "4", "--evaluation-trajectories", "4", "--hidden", "8", "--k", "4"]
    assert main(["explore", "rail.py:Rail", *sizes, "--epochs", "1", "--threads", "1", "--out", "run"]) == 0
    said = capsys.readouterr().out
    assert f"(ceiling {np.log(4):.3f})" in said  # ln of the rail's length, which nobody gave
    assert "no heatmap" not in said
    run = mepol.open("run")
    with run.working(4) as copies:
        batch = run.rollout(copies)
    counts = visit_counts(batch, run.domain.grid).sum(axis=0)
    truth, _ = np.histogram(batch.states[:, 1:], 20, (-2, 2))
    np.testing.assert_array_equal(counts, truth[:, None])
    assert run.directory.load_visits(0).shape == (20, 1)
    with Image.open("run/figures/coverage.png") as picture:
        assert picture.width > picture.height
    assert main(["heatmaps", "run", "--replace", "--axes", "along:-1:1:8", "--trajectories", "3"]) == 0
    assert "heatmaps over along:-1:1:8, of epochs" in capsys.readouterr().out
    assert mepol.open("run").domain.grid.bins == (8, 1)
    assert main(["goals", "run", "--trajectories", "3"]) == 0
    assert Path("run/figures/goals.csv").read_text().startswith("along,hit_rate,steps_to_hit\n")
    assert main(["animate", "run"]) == 0
    assert main(["report", "run"]) == 0
    page = Path("run/figures/report.html").read_text()
    assert '"names":["along",""]' in page.replace(" ", "")

"""Hit rates and times on walks that are known step by step."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from mepol.algorithm.batch import Batch
from mepol.cli import main
from mepol.envs.coordinates import Grid
from mepol.envs.make import make_env
from mepol.envs.reachable import reachable_cells
from mepol.evaluation.goal_coverage import goal_coverage
from mepol.exploration.drive import explore

GRID = Grid((0, 1), ("x", "y"), (0.0, 0.0), (2.0, 2.0), (2, 2))


def walks(*paths: list[tuple[float, float]], lengths: list[int] | None = None) -> Batch:
    states = np.array(paths, dtype=float)
    m, t = states.shape[0], states.shape[1] - 1
    return Batch(states, np.zeros((m, t, 1), dtype=np.float32), np.array(lengths or [t] * m, dtype=np.int64))


def test_hits_and_first_steps_by_hand():
    batch = walks(
        [(0.5, 0.5), (1.5, 0.5), (0.5, 0.5), (0.5, 0.5)],  # enters (1, 0) at step 1, (0, 0) at step 2
        [(0.5, 0.5), (0.5, 0.5), (1.5, 0.5), (9.0, 9.0)],  # enters (0, 0) at 1, (1, 0) at 2, then leaves the grid
    )
    found = goal_coverage(batch, GRID, np.ones((2, 2), dtype=bool))
    assert found.hit_rate.tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert found.steps_to_hit[0, 0] == found.steps_to_hit[1, 0] == 1.5
    assert math.isnan(found.steps_to_hit[1, 1])
    assert (found.mean_hit_rate, found.mean_steps_to_hit, found.goals_hit) == (0.5, 1.5, 2)


def test_only_goals_count_and_only_steps_that_were_taken():
    batch = walks([(0.5, 0.5), (0.5, 1.5), (1.5, 1.5)], lengths=[1])
    goals = np.array([[False, True], [False, True]])
    found = goal_coverage(batch, GRID, goals)
    assert found.mean_hit_rate == 0.5
    assert math.isnan(found.hit_rate[0, 0])
    nowhere = goal_coverage(batch, GRID, np.array([[False, False], [True, False]]))
    assert nowhere.mean_hit_rate == 0
    assert math.isnan(nowhere.mean_steps_to_hit)


def test_cells_inside_gridworlds_walls_are_no_goals():
    grid = Grid((0, 1), ("x", "y"), (-6.0, -6.0), (6.0, 6.0), (20, 20))
    cells = reachable_cells(make_env("mepol/GridWorld-v0", 1), grid, absorb=False)
    assert not cells[10, 10]  # the centre cross
    assert cells[0, 0]
    assert cells[18, 18]
    assert cells.sum() == 288
    # A grid over the left half of the map: its last column lies in the wall stubs and the centre cross, and what is
    # beyond it is no goal, though as visits it would count there.
    half = Grid((0, 1), ("x", "y"), (-6.0, -1.0), (0.0, 1.0), (12, 4))
    env = make_env("mepol/GridWorld-v0", 1)
    assert not reachable_cells(env, half, absorb=False)[-1].any()
    assert reachable_cells(env, half)[-1].any()


def test_the_command_writes_a_map_and_a_number(tmp_path, tiny, capsys):
    run = explore(tiny(epochs=0), tmp_path / "run")
    assert main(["goals", str(run.path), "--trajectories", "4", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert 0 < printed["hit_rate"] < 0.5
    assert printed["trajectories"] == 4
    assert printed["goals"] == 288
    lines = (run.path / "figures" / "goals.csv").read_text().splitlines()
    assert len(lines) == printed["goals"] + 1
    rates = [float(line.split(",")[2]) for line in lines[1:]]
    assert np.mean(rates) == pytest.approx(printed["hit_rate"], abs=1e-4)
    assert (run.path / "figures" / "goals.png").is_file()
    assert main(["goals", str(run.path), "--trajectories", "4"]) == 0
    assert main(["goals", str(run.path), "--trajectories", "0"]) == 2

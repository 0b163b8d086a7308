"""The verbs as a person calls them: strings as paths, temporary runs, silence, and a notebook."""

from __future__ import annotations

import os
from pathlib import Path

import gymnasium
import nbclient
import nbformat
import numpy as np
import pytest
from PIL import Image

import mepol
from mepol.errors import ConfigError

TASK = {"iterations": 1, "horizon": 20, "trpo.steps": 40, "hidden": (8,), "threads": 1, "progress": False}

CELL = """\
import mepol; from IPython.display import Image, display
run = mepol.explore("gridworld", fast=True, epochs=1, horizon=60, trajectories=5, k=4, eps=1e-15)
display(Image(run.figures()[-1]))
task = mepol.finetune("grid-goal1", init=run, iterations=1, horizon=20, hidden=(8,), **{"trpo.steps": 40})
task.metrics["iteration"].tolist()
"""


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_may_be_a_string_everywhere(kind, here, small):
    run = mepol.explore("gridworld", epochs=1, out=kind("new"), **small)
    assert run.path == Path("new")
    assert mepol.resume(kind("new"), length=2, progress=False).metrics["epoch"].tolist() == [0, 1, 2]
    assert mepol.open(kind("new")).finished
    assert mepol.evaluate(kind("new"), trajectories=5).evaluation.particles == 300
    assert mepol.finetune("grid-goal1", init=kind("new"), out=kind("task"), **TASK).finished
    assert mepol.finetune("grid-goal1", init=kind("new/best.safetensors"), out=kind("other"), **TASK).finished
    mepol.save_policy(run.policy, kind("policy.safetensors"))
    assert mepol.load_policy(kind("policy.safetensors")).widths == (2, 16, 16, 2)
    assert run.video(kind("film.gif"), steps=2) == Path("film.gif")
    with Image.open("film.gif") as film:
        assert film.n_frames == 3
    mepol.resume("new", length=3, callbacks=[mepol.TensorBoard(kind("logs"))], progress=False)
    assert list(Path("logs").iterdir())


def test_without_a_place_a_run_is_temporary_and_says_where(capsys, small, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run = mepol.explore("gridworld", epochs=1, **{**small, "progress": True})
    assert run.path.is_relative_to(tmp_path)
    told = capsys.readouterr().out
    assert told.startswith(f"the run goes to {run.path}, which is temporary")
    assert "epoch    1/1" in told


def test_silence_is_silent(capfd, small, here):
    mepol.explore("gridworld", epochs=1, **small)
    mepol.resume("runs/gridworld", length=3, progress=False)
    mepol.finetune("grid-goal1", **TASK)
    assert capfd.readouterr() == ("", "")


def test_the_same_task_goes_on_after_a_goal_that_no_file_holds(here, small):
    def goal(states):
        return states[:, 0] > -3

    first = mepol.finetune(goal, init="runs/gridworld", out="task", **TASK)
    assert first.config.task == f"given:{__name__}:{goal.__qualname__}"
    again = mepol.resume("task", length=2, goal=goal, progress=False)
    assert again.metrics["iteration"].tolist() == [0, 1, 2]
    with pytest.raises(ConfigError, match=r"goal is .* hand it in again"):
        mepol.resume("task", length=3, progress=False)
    assert mepol.open("task").evaluate(trajectories=2, eps=1e-15).evaluation.particles == 40  # needs no goal


def test_an_environment_that_no_file_holds_is_handed_in_again(tmp_path, small, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def near_the_corner(n):
        return gymnasium.make_vec("mepol/GridWorld-v0", n)

    run = mepol.explore(near_the_corner, epochs=1, out="run", **small)
    assert run.evaluate(trajectories=2).evaluation.particles == 120
    (tmp_path / "given.py").write_text("raise SystemExit('a stored name was imported')")
    monkeypatch.syspath_prepend(tmp_path)
    opened = mepol.open("run")  # its numbers are there without it
    assert opened.metrics["epoch"].tolist() == [0, 1]
    with pytest.raises(ConfigError, match=r"env is .* hand it in again"):
        opened.evaluate(trajectories=2)
    with pytest.raises(ConfigError, match=r"env is .* hand it in again"):
        mepol.resume("run", length=2, progress=False)
    again = mepol.resume("run", length=2, env=near_the_corner, progress=False)
    assert again.metrics["epoch"].tolist() == [0, 1, 2]
    goal = mepol.finetune(lambda states: states[:, 0] > -3, env=near_the_corner, out="task", **TASK)
    assert goal.states(trajectories=2).shape == (2, 21, 2)
    with pytest.raises(ConfigError, match=r"env is .* hand it in again"):
        mepol.resume("task", length=2, goal=lambda states: states[:, 0] > -3, progress=False)


def test_any_function_of_observations_is_measured_in_any_environment():
    asked = {"pairs": ("x,y:-6:6:4",), "horizons": (10, 30), "k": 2, "eps": 1e-15, "horizon": 20, "threads": 1}

    def away(observations):
        return np.ones_like(observations)

    found = mepol.evaluate(away, "gridworld", trajectories=5, **asked)
    assert found.evaluation.particles == 100
    assert found.pairs["x,y:-6:6:4"].cells >= 2
    assert [row.h for row in found.horizons] == [10, 30]
    with pytest.raises(ConfigError, match="say what it acts in"):
        mepol.evaluate(away)


def test_a_seed_is_a_number_or_a_sequence():
    env = gymnasium.make_vec("mepol/GridWorld-v0", 3)
    policy = mepol.GaussianPolicy(2, 2, (8,))
    batches = [mepol.collect(policy, env, 10, seed=s) for s in (5, np.int64(5), np.random.SeedSequence(5), 6)]
    for same in batches[1:3]:
        np.testing.assert_array_equal(same.states, batches[0].states)
        np.testing.assert_array_equal(same.actions, batches[0].actions)
    assert not np.array_equal(batches[3].states, batches[0].states)


def test_a_cell_of_five_lines_explores_draws_and_starts_a_task(tmp_path, monkeypatch):
    """In a real kernel, which takes its time to start."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(mepol.__file__).parents[1]), *os.sys.path]))
    assert len(CELL.splitlines()) <= 5
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = notebook.cells[0].outputs
    assert {output.output_type for output in outputs} == {"display_data", "execute_result"}  # nothing on stderr
    bars = [output.data["text/html"] for output in outputs if "━" in output.get("data", {}).get("text/html", "")]
    assert [("epoch" in bar, "iteration" in bar, "1/1" in bar) for bar in bars] == [
        (True, False, True),
        (False, True, True),
    ]
    assert any("image/png" in output.data for output in outputs)
    assert outputs[-1].data["text/plain"] == "[0, 1]"

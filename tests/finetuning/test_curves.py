"""Fine-tuning runs are grouped by learner, and their curves end where they should."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mepol.cli import main
from mepol.errors import RunError
from mepol.evaluation import mean_interval
from mepol.finetuning.config import FinetuneConfig, TrpoConfig
from mepol.finetuning.curves import Curve, FinetuneRun, learners, learning_band, merged, read_curves
from mepol.finetuning.rows import FINETUNE, FinetuneRow
from mepol.runs.directory import RunDirectory
from mepol.runs.machine import MachineConfig

BASE = FinetuneConfig(task="grid-goal1", iterations=4, stop_return=0.95, stop_after=2)


@pytest.fixture
def write(tmp_path: Path):
    def write(name: str, returns: Sequence[float], **changes: object) -> FinetuneRun:
        """A run whose policies had these average returns; it learnt from all but the last."""
        with RunDirectory.create(tmp_path / name, FINETUNE, dataclasses.replace(BASE, **changes), "{}") as run:
            for i, value in enumerate(returns):
                learnt = 1.0 if i < len(returns) - 1 else None
                steps = 100.0 if value else None
                run.append(FinetuneRow(i, 5000 * i, value, value / 2, steps, 10, 1.0, learnt))
        return run

    return write


def test_learners_are_told_apart_by_algorithm_start_and_settings(write):
    runs = [
        write("a1", [0], seed=1, init="runs/explorer-seed-1"),
        write("a0", [0], seed=0, init="runs/explorer-seed-0", machine=MachineConfig(threads=2)),
        write("b", [0]),
        write("c", [0], algo="smm"),
        write("d", [0], task="grid-goal2"),
        write("e", [0], trpo=TrpoConfig(kl=0.5)),
    ]
    found = learners(runs)
    assert [(one.task, one.name) for one in found] == [
        ("grid-goal1", "trpo from explorer"),
        ("grid-goal1", "trpo from scratch trpo.kl=0.01"),
        ("grid-goal1", "smm from scratch"),
        ("grid-goal2", "trpo from scratch"),
        ("grid-goal1", "trpo from scratch trpo.kl=0.5"),
    ]
    assert [curve.seed for curve in found[0].curves] == [0, 1]


def test_a_solved_run_keeps_its_last_value_and_a_stopped_one_ends_the_band(write):
    solved, whole = write("a", [0, 1, 1], seed=0), write("b", [0, 0, 0.5, 0.5, 0.9], seed=1)
    assert (Curve.of(solved).solved, Curve.of(whole).solved) == (True, False)
    assert (Curve.of(solved).solved_at, Curve.of(whole).solved_at) == (1, 4)
    band = learning_band(learners([solved, whole])[0], "average_return")
    assert band is not None
    np.testing.assert_allclose(band.x, [0, 1, 2, 3, 4])
    np.testing.assert_allclose(band.centre, [0, 0.5, 0.75, 0.75, 0.95])
    steps = learning_band(learners([solved, whole])[0], "steps_to_goal")
    assert steps is not None
    assert (steps.low[0], steps.high[0]) == (100.0, 100.0)
    truth = mean_interval([1, 0.9])  # wider than any return can be
    assert truth.low is not None
    assert (band.low[4], band.high[4], band.n) == (pytest.approx(truth.low), 1.0, 2)
    assert truth.high is not None
    assert truth.high > 1
    under_way = write("c", [0, 0, 0], seed=2)
    (under_way.path / "metrics.csv").write_text((whole.path / "metrics.csv").read_text().split("2,")[0])
    band = learning_band(learners([solved, whole, under_way])[0], "average_return")
    assert band is not None
    assert len(band.x) == 2


def test_compare_of_fine_tuning_runs(write, tmp_path, capsys):
    runs = [write("a", [0, 1, 1]), write("b", [0, 0.5, 1, 1], seed=1), write("c", [0] * 5, algo="sac")]
    assert main(["compare", *(str(run.path) for run in runs), "--out", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert "1 2" in text
    assert {"trpo", "sac", "scratch"} <= set(text.split())  # a narrow terminal breaks the names
    with (tmp_path / "out" / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 + 4 + 5
    assert (rows[4]["learner"], rows[4]["seed"], rows[4]["average_return"]) == ("trpo from scratch", "1", "0.5")
    assert rows[-1]["steps_to_goal"] == ""
    for measure in ("average-return", "success-rate", "steps-to-goal"):
        assert Image.open(tmp_path / "out" / f"grid-goal1-{measure}.png").width > 100
    (tmp_path / "exploration").mkdir()
    (tmp_path / "exploration" / "config.json").write_text('{"env": "x", "explorer": "mepol"}')
    assert main(["compare", str(runs[0].path), str(tmp_path / "exploration")]) == 2
    assert "each kind by itself" in capsys.readouterr().err
    write("empty", [])
    assert main(["compare", str(tmp_path / "empty")]) == 1
    assert "no finished episode" in capsys.readouterr().err


def test_an_earlier_table_is_taken_in_and_newer_runs_count(write, tmp_path, capsys):
    first = [write("a", [0, 1, 1]), write("b", [0, 0.25], seed=1)]
    assert main(["compare", *(str(run.path) for run in first), "--out", str(tmp_path / "old")]) == 0
    table = tmp_path / "old" / "curves.csv"
    before = learners(first)
    (kept,) = read_curves(table)
    assert (kept.task, kept.name) == (before[0].task, before[0].name)
    for found, truth in zip(kept.curves, before[0].curves, strict=True):
        assert (found.seed, found.solved, found.solved_at) == (truth.seed, truth.solved, truth.solved_at)
        np.testing.assert_allclose(found.points("average_return", 9), truth.points("average_return", 9))
    newer = [write("b2", [0, 0.25, 0.75, 1, 1], seed=1), write("c", [0.5] * 5, seed=2)]
    out = tmp_path / "new"
    assert main(["compare", str(table), *(str(run.path) for run in newer), "--out", str(out)]) == 0
    (all_three,) = read_curves(out / "curves.csv")
    assert [len(curve.rows) for curve in all_three.curves] == [3, 5, 5]
    assert all_three == merged([all_three, kept])[0]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "does not start with the columns"),
        ("task,learner\n", "does not start with the columns"),
        ("HEAD\ngrid-goal1,x,0,0,0,nan,,,\n", "line 2: 'nan' is not a number"),
        ("HEAD\ngrid-goal1,x,0,0,0,,,,\ngrid-goal1,x,0\n", "line 3"),
        ("HEAD\ngrid-goal1,x,zero,0,0,,,,\n", "line 2"),
    ],
)
def test_a_table_that_is_none_is_refused_with_its_line(tmp_path, text, fault):
    head = "task,learner,seed,iteration,samples,average_return,success_rate,steps_to_goal,ended"
    (tmp_path / "curves.csv").write_text(text.replace("HEAD", head))
    with pytest.raises(RunError, match=fault):
        read_curves(tmp_path / "curves.csv")
    with pytest.raises(RunError, match="cannot read"):
        read_curves(tmp_path / "nothing.csv")

"""What looks on: it sees each turn, may end the run, and writes what its own readers read."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import mepol
from mepol.cli import main
from mepol.errors import ConfigError, MepolError
from mepol.runs.callbacks import NAMES, logged, logger

FLAGS = [
    *("--horizon", "60", "--trajectories", "4", "--evaluation-trajectories", "5", "--evaluate-every", "1"),
    *("--hidden", "16", "16", "--log-std", "-1.5", "--k", "4", "--eps", "1e-15", "--learning-rate", "1e-4"),
    *("--zero-mean-steps", "5", "--max-steps", "3", "--threads", "1"),
]


def read_scalars(folder):
    """name -> [(step, value)], by TensorBoard's own reader."""
    reader = EventAccumulator(str(folder))
    reader.Reload()
    return {name: [(e.step, e.value) for e in reader.Scalars(name)] for name in reader.Tags()["scalars"]}


def measured(run, column):
    rows = run.directory.rows()
    return [(row.samples, value) for row in rows if (value := getattr(row, column)) is not None]


def test_a_callback_sees_the_row_the_policy_and_the_batch_and_may_end_the_run(tmp_path, small):
    seen = []

    def look(progress):
        seen.append(progress)
        return progress.turn == 1

    run = mepol.explore("gridworld", epochs=50, out=tmp_path / "run", callbacks=[look], **small)
    assert run.finished
    assert [p.turn for p in seen] == run.metrics["epoch"].tolist() == [0, 1, 2]
    assert [dataclasses.asdict(p.row) for p in seen] == [dataclasses.asdict(row) for row in run.directory.rows()]
    assert [None if p.batch is None else p.batch.size for p in seen] == [240, 240, None]
    assert all(p.policy.widths == (2, 16, 16, 2) for p in seen)
    assert (run.path / "best.safetensors").is_file()


def test_a_column_to_stop_at_must_exist(tmp_path, small):
    with pytest.raises(ConfigError, match=r"no column 'entropi' .*entropy"):
        mepol.explore("gridworld", epochs=1, out=tmp_path / "r", callbacks=[mepol.StopAt("entropi", 1)], **small)


def test_tensorboard_reads_back_each_number_against_samples(tmp_path, small):
    run = mepol.explore("gridworld", epochs=2, out=tmp_path / "run", callbacks=[mepol.TensorBoard()], **small)
    found = read_scalars(run.path / "tensorboard")
    for column in ("index", "discrete_entropy", "pooled_entropy", "cells"):
        wanted = measured(run, column)
        assert len(wanted) == 3
        assert [step for step, _ in found[NAMES[column]]] == [samples for samples, _ in wanted] == [0, 240, 480]
        assert [value for _, value in found[NAMES[column]]] == pytest.approx([value for _, value in wanted])
    assert [v for _, v in found["train/entropy"]] == pytest.approx([v for _, v in measured(run, "entropy")])
    assert len(found["charts/SPS"]) == 2
    assert set(found) >= {"train/kl", "train/steps"}


def test_tensorboard_logs_a_task_too(tmp_path):
    settings = {"iterations": 1, "horizon": 20, "trpo.steps": 40, "hidden": (8,), "threads": 1, "progress": False}
    run = mepol.finetune("grid-goal1", out=tmp_path / "task", callbacks=[mepol.TensorBoard()], **settings)
    found = read_scalars(run.path / "tensorboard")
    assert [v for _, v in found["charts/average_return"]] == [v for _, v in measured(run, "average_return")]
    assert [v for _, v in found["charts/success_rate"]] == [v for _, v in measured(run, "success_rate")]


def test_weights_and_biases_writes_an_offline_run_without_a_network(tmp_path, small, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for name in ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "own"))
    (tmp_path / "logs").mkdir()
    log = mepol.WeightsAndBiases("covering", folder=tmp_path / "logs")
    run = mepol.explore("gridworld", epochs=1, out=tmp_path / "run", callbacks=[log], **small)
    assert run.finished
    files = list((tmp_path / "logs").rglob("run-*.wandb"))
    assert len(files) == 1
    content = files[0].read_bytes()
    for name in (NAMES["index"], "train/entropy", "samples", "covering"):
        assert name.encode() in content


def test_the_command_line_reaches_them_all(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments = ["explore", "gridworld", "--epochs", "40", "--out", "run", *FLAGS]
    assert main([*arguments, "--log", "tensorboard", "--stop-discrete", "0.1"]) == 0
    run = mepol.open("run")
    assert run.finished
    assert run.metrics["epoch"].tolist() == [0, 1]
    assert read_scalars("run/tensorboard")["charts/discrete_entropy"]
    arguments[-len(FLAGS) - 1] = "second"
    assert main([*arguments, "--stop-index", "-1000"]) == 0
    assert mepol.open("second").metrics["epoch"].tolist() == [0, 1]
    capsys.readouterr()
    arguments[-len(FLAGS) - 1] = "third"
    assert main([*arguments, "--log", "tensorbored"]) == 2
    assert "no logger 'tensorbored'; there are tensorboard, wandb" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "module"), [("tensorboard", "tensorboard"), ("wandb", "wandb")])
def test_a_missing_logger_is_one_sentence(name, module, tmp_path):
    script = f"import sys; sys.modules[{module!r}] = None\nfrom mepol.cli import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["explore", "gridworld", "--epochs", "1", "--log", name]
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"mepol: logging needs {name}, which is not installed: pip install 'mepol[log]'\n"
    assert list(tmp_path.iterdir()) == []


def test_what_is_logged_leaves_out_what_was_not_measured(tmp_path, small):
    rows = []
    mepol.explore("gridworld", epochs=1, out=tmp_path / "run", callbacks=[lambda p: rows.append(logged(p))], **small)
    assert "train/entropy" in rows[0]
    assert "train/entropy" not in rows[1]
    assert {"train/epoch", "train/samples"}.isdisjoint(rows[0])


def test_an_unknown_logger_is_named():
    with pytest.raises(MepolError, match="no logger 'paper'"):
        logger("paper")

"""The command line: what a user types, sees, and finds on disk; and one sentence for everything that is wrong."""

from __future__ import annotations

import csv
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mepol import GaussianPolicy, knn_entropy, load_policy, save_policy
from mepol.cli import main
from mepol.exploration.presets import PRESETS, fast
from mepol.run import Run
from mepol.runs.directory import RunDirectory
from mepol.runs.streams import Stream, stream
from mepol.sampling.collect import collect

SMALL = [
    *("--horizon", "60", "--trajectories", "4", "--k", "4", "--max-steps", "2", "--threads", "1", "--seed", "3"),
    *("--epochs", "2", "--hidden", "16", "16", "--zero-mean-steps", "5", "--evaluation-trajectories", "5"),
    *("--eps", "1e-15", "--learning-rate", "1e-4", "--max-entropy-drop", "1000"),
]
COMMAND = [sys.executable, "-c", "import sys; from mepol.cli import main; sys.exit(main())"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small finished run; tests leave it as it is."""
    out = tmp_path_factory.mktemp("cli") / "run"
    assert main(["explore", "gridworld", *SMALL, "--out", str(out)]) == 0
    return out


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def run_main(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    try:
        code = main(arguments)
    except SystemExit as stop:  # the argument parser's own way to refuse
        code = stop.code if isinstance(stop.code, int) else 1
    out, err = capsys.readouterr()
    return code, out, err


def assert_one_sentence(err: str, *words: str) -> None:
    assert "Traceback" not in err
    assert err.startswith("mepol: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


# --- explore ------------------------------------------------------------------------------------------------------


def test_explore_leaves_a_whole_run_behind(finished: Path) -> None:
    names = {"config.json", "metrics.csv", "steps.csv", "policy.safetensors", "initial.safetensors"}
    assert names <= {p.name for p in finished.iterdir()}
    run = RunDirectory.open(finished)
    assert (run.config.horizon, run.config.ascent.k, run.config.policy.hidden) == (60, 4, (16, 16))
    assert [row.epoch for row in run.rows()] == [0, 1, 2]
    assert load_policy(finished / "policy.safetensors").widths == (2, 16, 16, 2)
    for epoch in (0, 2):
        assert run.load_visits(epoch).sum() == 5 * 60
        assert (finished / "heatmaps" / f"epoch-{epoch:05d}.png").stat().st_size > 5000
    for name in ("entropy.png", "coverage.png"):
        assert (finished / "figures" / name).stat().st_size > 5000
    assert not list(finished.rglob("*.tmp"))


def test_explore_shows_progress_and_where_things_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    code, text, err = run_main(["explore", "gridworld", *SMALL, "--out", str(out)], capsys)
    assert (code, err) == (0, "")
    assert "epoch    0/2" in text
    assert "epoch    2/2" in text
    assert "entropy index" in text
    assert "ceiling 4.608" in text
    assert str(out / "figures" / "entropy.png") in text


def test_any_gymnasium_environment_can_be_explored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, text, err = run_main(["explore", "Pendulum-v1", *SMALL], capsys)
    assert (code, err) == (0, "")
    assert "runs/Pendulum-v1-seed-3" in text
    assert len(RunDirectory.open(tmp_path / "runs" / "Pendulum-v1-seed-3").rows()) == 3


def test_the_command_is_installed_and_works_from_a_shell(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = subprocess.run(
        [*COMMAND, "explore", "mountain-car", *SMALL, "--out", str(out)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(RunDirectory.open(out).rows()) == 3
    bad = subprocess.run([*COMMAND, "explore", "gridwold"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert bad.returncode == 2
    assert_one_sentence(bad.stderr, "did you mean 'gridworld'")
    assert {p.name for p in tmp_path.iterdir()} == {"run"}


def test_ctrl_c_leaves_whole_rows_and_a_policy(tmp_path: Path) -> None:
    out = tmp_path / "run"
    endless = [*COMMAND, "explore", "gridworld", *SMALL, "--epochs", "100000", "--out", str(out)]
    process = subprocess.Popen(
        endless,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores Ctrl-C
    )
    try:
        metrics = out / "metrics.csv"
        for _ in range(1200):
            if metrics.exists() and metrics.read_text().count("\n") > 3:
                break
            time.sleep(0.1)
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert_one_sentence(err, "interrupted", f"is in {out}, and mepol resume {out} goes on from there")
    rows = RunDirectory.open(out).rows()
    assert len(rows) >= 3
    assert [row.epoch for row in rows] == list(range(len(rows)))
    assert metrics.read_text().endswith("\n")
    with (out / "steps.csv").open(newline="") as file:
        assert all(None not in record.values() and None not in record for record in csv.DictReader(file))
    assert Run.open(out).policy.widths == (2, 16, 16, 2)
    assert not list(out.rglob("*.tmp"))


# --- evaluate -----------------------------------------------------------------------------------------------------


def test_evaluate_as_json(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, err = run_main(["evaluate", str(finished), "--trajectories", "6", "--json"], capsys)
    assert (code, err) == (0, "")
    record = json.loads(text)
    assert record["run"] == str(finished)
    assert (record["trajectories"], record["particles"], record["k"]) == (6, 360, 4)
    assert {"index", "discrete_entropy", "pooled_entropy", "cells"} <= set(record)
    again = json.loads(run_main(["evaluate", str(finished), "--trajectories", "6", "--json"], capsys)[1])
    assert again == record
    other = json.loads(run_main(["evaluate", str(finished), "--trajectories", "6", "--seed", "1", "--json"], capsys)[1])
    assert other["index"] != record["index"]


def test_evaluate_on_other_features(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The index of y alone is the estimator's, of the states that the same seed visits."""
    words = ["evaluate", str(finished), "--trajectories", "6", "--eps", "1e-6", "--json"]
    record = json.loads(run_main([*words, "--features", "y"], capsys)[1])
    own = Run.open(finished).evaluate(trajectories=6, eps=1e-6).evaluation
    with Run.open(finished).working(6) as env:
        batch = collect(Run.open(finished).policy, env, 60, seed=stream(0, Stream.FRESH))
    y = batch.states[:, 1:, 1].reshape(-1, 1)
    assert record["index"] == pytest.approx(knn_entropy(y, k=4, eps=1e-6), abs=1e-9)
    assert record["index"] != own.index
    assert record["cells"] == own.cells
    code, _, err = run_main([*words, "--features", "z"], capsys)
    assert code == 2
    assert_one_sentence(err, "'z'")


def test_evaluate_as_a_table(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {p: p.read_bytes() for p in finished.rglob("*") if p.is_file()}
    code, text, err = run_main(["evaluate", str(finished), "--trajectories", "6"], capsys)
    assert (code, err) == (0, "")
    for word in ("index", "discrete_entropy", "pooled_entropy", "cells", "particles", "360"):
        assert word in text
    assert {p: p.read_bytes() for p in finished.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("name", ["a[b]c", "[red]run", ":smile:", "white space"])
def test_names_of_directories_are_printed_as_they_are(
    copy: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    odd = copy.rename(copy.parent / name)
    code, text, _ = run_main(["evaluate", str(odd), "--trajectories", "3", "--json"], capsys)
    assert code == 0
    assert json.loads(text)["run"] == str(odd)


# --- presets and help ---------------------------------------------------------------------------------------------


def test_presets_are_listed_with_their_sources(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, err = run_main(["presets"], capsys)
    assert (code, err) == (0, "")
    for name in PRESETS:
        assert name in text
    for word in ("learning_rate", "1e-05", "0.0001", "kl_threshold", "release", "paper"):
        assert word in text


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["help"], ["--version"], ["explore", "--help"]])
def test_help_is_no_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, text, err = run_main(arguments, capsys)
    assert (code, err) == (0, "")
    assert "mepol" in text


@pytest.mark.parametrize("command", ["explore gridworld", "evaluate", "presets"])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run_main([*command.split(), "--help"], capsys)
    assert code == 0
    assert "usage: mepol" in text


def test_the_common_settings_are_flat_flags(capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run_main(["explore", "gridworld", "--help"], capsys)
    for flag in (
        "k",
        "horizon",
        "trajectories",
        "learning-rate",
        "kl-threshold",
        "max-steps",
        "threads",
        "seed",
        "out",
    ):
        assert f"--{flag} " in text


def test_nothing_typed_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run_main([], capsys)
    assert code == 2
    assert "mepol explore" in text


# --- bad input ----------------------------------------------------------------------------------------------------


WRONG = [
    (["exploer"], ["no command 'exploer'", "explore"]),
    (["explore"], ["explore needs a preset", "gridworld"]),
    (["explore", "gridwold"], ["gridwold", "did you mean 'gridworld'"]),
    (["explore", "mountaincar"], ["did you mean 'mountain-car'"]),
    (["explore", "gridworld", "--k", "-1"], ["k = -1 is not possible", "at least 0"]),
    (["explore", "gridworld", "--k", "24000"], ["k = 24000 is not possible", "below the 24000 particles"]),
    (["explore", "gridworld", "--horizon", "0"], ["horizon = 0", "at least 1"]),
    (["explore", "gridworld", "--trajectories", "-2"], ["trajectories = -2", "at least 1"]),
    (["explore", "gridworld", "--learning-rate", "0"], ["learning_rate = 0", "above 0"]),
    (["explore", "gridworld", "--learning-rate", "nan"], ["learning_rate = nan"]),
    (["explore", "gridworld", "--kl-threshold", "-1"], ["kl_threshold = -1", "above 0"]),
    (["explore", "gridworld", "--max-steps", "0"], ["max_steps = 0"]),
    (["explore", "gridworld", "--threads", "-1"], ["threads = -1"]),
    (["explore", "gridworld", "--seed", "-1"], ["seed = -1"]),
    (["explore", "gridworld", "--epochs", "-1"], ["epochs = -1"]),
    (
        ["explore", "gridworld", "--evaluation-trajectories", "1", "--horizon", "50"],
        ["evaluation_trajectories = 1"],
    ),
    (["explore", "gridworld", "--features", "z"], ["no feature 'z'", "x, y"]),
    (["explore", "gridworld", "--heatmap-low", "0", "0", "--heatmap-high", "0", "1"], ["'x'", "zero-width"]),
    (
        ["explore", "gridworld", "--heatmap-low", "-inf", "0"],
        ["heatmap_low = (-inf, 0.0)", "finite"],
    ),
    (["evaluate", "some/run", "--trajectories", "0"], ["trajectories = 0", "at least 1"]),
    (["evaluate", "some/run", "--seed", "-1"], ["seed = -1"]),
]
"""Arguments that cannot be meant, with words of the sentence that says so: code 2."""
FAILED = [
    (["explore", "gridworld", "--wrapper", "os:system"], ["os has no wrapper 'system'", "gymnasium.Wrapper"]),
    (["explore", "gridworld", "--env", "NoSuch-v0"], ["NoSuch"]),
    (["evaluate", "missing/run"], ["missing/run is not a run directory"]),
    (["evaluate", "."], ["not a run directory"]),
]
"""Arguments that mean something that is not there: code 1."""


@pytest.mark.parametrize(
    ("expected", "arguments", "words"), [*((2, *case) for case in WRONG), *((1, *case) for case in FAILED)]
)
def test_what_is_wrong_is_one_sentence_and_leaves_nothing(
    expected: int,
    arguments: list[str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run_main(arguments, capsys)
    assert_one_sentence(err, *words)
    assert code == expected
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [["explore", "gridworld", "--no-such-flag", "1"], ["explore", "gridworld", "--k", "many"], ["evaluate"]],
)
def test_what_the_parser_refuses_is_code_2_without_a_traceback(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run_main(arguments, capsys)
    assert code == 2
    assert err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_holds_a_run_is_refused(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()}
    code, _, err = run_main(["explore", "gridworld", *SMALL, "--out", str(copy)], capsys)
    assert_one_sentence(err, "already exists and is not empty", str(copy))
    assert code == 1
    assert {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()} == before


def test_an_output_below_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("text")
    for name in ("file", "file/below", "x" * 300):
        code, _, err = run_main(["explore", "gridworld", *SMALL, "--out", str(tmp_path / name)], capsys)
        assert_one_sentence(err)
        assert code == 1
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", ["missing", "empty", "truncated", "pickle", "foreign", "other-widths", "directory"])
def test_a_policy_file_that_is_none_is_refused(kind: str, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = copy / "policy.safetensors"
    data = path.read_bytes()
    path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind == "other-widths":  # a true policy, of another environment
        save_policy(GaussianPolicy(3, 1, (4,)), path)
    elif kind != "missing":
        contents = {"empty": b"", "truncated": data[:-9], "pickle": pickle.dumps([1]), "foreign": b"\x7fELF" * 99}
        path.write_bytes(contents[kind])
    code, out, err = run_main(["evaluate", str(copy), "--trajectories", "3"], capsys)
    assert_one_sentence(err, "made for another environment" if kind == "other-widths" else "policy.safetensors")
    assert (code, out) == (1, "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 2),
        ("{", 2),
        ("[]", 2),
        ('{"env": "x", "explorer": "mepol", "colour": 1}', 2),
        ('{"env": "mepol/GridWorld-v0", "explorer": "mepol", "seed": -1}', 2),
        ('{"env": "mepol/GridWorld-v0"}', 1),  # a run of neither phase
        ('{"env": "mepol/GridWorld-v0", "explorer": "mepol", "task": "grid-goal1"}', 1),  # or of both
    ],
)
def test_a_broken_config_is_refused(text: str, expected: int, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / "config.json").write_text(text)
    code, _, err = run_main(["evaluate", str(copy)], capsys)
    assert_one_sentence(err, "config.json")
    assert code == expected


def test_too_few_particles_to_evaluate_are_refused(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = json.loads((copy / "config.json").read_text())
    config["ascent"]["k"] = 100
    (copy / "config.json").write_text(json.dumps(config))
    code, _, err = run_main(["evaluate", str(copy), "--trajectories", "1"], capsys)
    assert_one_sentence(err, "k = 100 is not in [1, N - 1] for N = 60 particles")
    assert code == 1


def test_a_closed_pipe_is_no_traceback(finished: Path) -> None:
    command = [*COMMAND, "presets"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()


def test_fast_starts_from_other_settings(tmp_path: Path) -> None:
    small = ["--epochs", "0", "--horizon", "60", "--evaluation-trajectories", "2", "--zero-mean-steps", "1"]
    assert main(["explore", "gridworld", "--fast", *small, "--out", str(tmp_path / "run")]) == 0
    config = RunDirectory.open(tmp_path / "run").config
    assert (config.horizon, config.trajectories, config.policy.hidden) == (60, 40, (64, 64))


def test_fast_serves_any_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = [
        "--epochs",
        "1",
        "--horizon",
        "40",
        "--evaluation-trajectories",
        "2",
        "--trajectories",
        "4",
        "--threads",
        "1",
    ]
    assert run_main(["explore", "Pendulum-v1", "--fast", *small, "--out", str(tmp_path / "run")], capsys)[0] == 0
    run = RunDirectory.open(tmp_path / "run")
    assert (run.config.ascent.rule, run.config.policy.standardise, run.config.horizon) == ("advantage", True, 40)
    scale = Run.open(tmp_path / "run").policy.scale.tolist()
    assert scale == pytest.approx([1.0, 1.0, 8.0])  # bounded inputs to [-1, 1]
    assert run_main(["explore", "nowhere", "--fast"], capsys)[0] == 2
    assert fast("hand-reach", PRESETS["hand-reach"].config).horizon == PRESETS["hand-reach"].config.horizon


@pytest.mark.parametrize("threads", ["1", "2"])
def test_flags_reach_the_config(tmp_path: Path, capsys: pytest.CaptureFixture[str], threads: str) -> None:
    out = tmp_path / "run"
    flags = {"--seed": "9", "--epochs": "0", "--kl-threshold": "2.5", "--max-steps": "7", "--threads": threads}
    typed = [word for pair in flags.items() for word in pair]
    assert run_main(["explore", "gridworld", *SMALL, *typed, "--out", str(out)], capsys)[0] == 0
    config = RunDirectory.open(out).config
    assert (config.seed, config.epochs, config.machine.threads) == (9, 0, int(threads))
    assert (config.ascent.kl_threshold, config.ascent.max_steps) == (2.5, 7)


def test_the_same_command_gives_the_same_policy(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "again"
    assert run_main(["explore", "gridworld", *SMALL, "--out", str(out)], capsys)[0] == 0
    assert (out / "policy.safetensors").read_bytes() == (finished / "policy.safetensors").read_bytes()

"""Comparisons of runs that were named twice, killed, damaged, or made by a stranger."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from mepol import GaussianPolicy
from mepol.cli import main
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import explore
from mepol.exploration.rows import EXPLORE, MetricsRow
from mepol.finetuning.config import FinetuneConfig
from mepol.finetuning.curves import FinetuneRun, learners, learning_band
from mepol.finetuning.rows import FINETUNE, FinetuneRow
from mepol.runs.directory import RunDirectory
from mepol.runs.policies import policy_bytes

BASE = FinetuneConfig(task="grid-goal1", iterations=3)
HEAD = "task,learner,seed,iteration,samples,average_return,success_rate,steps_to_goal,ended,start\n"
EVIL = "evil\x1b]52;c;AAAA\x07\x1b[2J\x9bm\u202e$\\frac{"  # clipboard, clear screen, reversed text, a formula


@pytest.fixture(scope="module")
def run(tiny: Callable[..., ExploreConfig], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("strangers") / "r0"
    explore(tiny(zero_mean_steps=0), out)
    return out


@pytest.fixture
def legends(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The texts of the legend of every figure that is drawn."""
    seen: list[list[str]] = []
    save = Figure.savefig

    def look(figure: Figure, *arguments: object, **options: object) -> None:
        seen.append([text.get_text() for legend in figure.legends for text in legend.get_texts()])
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", look)
    monkeypatch.setenv("COLUMNS", "200")  # whole names in the tables
    return seen


def tuned(path: Path, rows: Sequence[tuple[float, float | None]], initial: bytes | None, **changes: object):
    """A fine-tuning run with these average returns and steps to the goal; whole if it has four."""
    config = dataclasses.replace(BASE, **changes)
    with RunDirectory.create(path, FINETUNE, config, "{}", initial) as made:
        for i, (value, steps) in enumerate(rows):
            made.append(FinetuneRow(i, 100 * i, value, value, steps, 10, 1.0, None if i == config.iterations else 1.0))
    return made


def policy(seed: int) -> bytes:
    made = GaussianPolicy(2, 2, (4,))
    made.initialise(np.random.default_rng(seed), log_std=-1.0)
    return policy_bytes(made)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# --- counted once -------------------------------------------------------------------------------------------------


def test_a_run_counts_once(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    (tmp_path / "link").symlink_to(run)
    for other, why in ((run, "the same directory"), (tmp_path / "link", "the same directory"), (copy, "the same run")):
        assert main(["compare", str(run), str(other), "--out", str(tmp_path / "out")]) == 0
        out, err = capsys.readouterr()
        assert "± " not in out
        assert f"mepol: warning: {other} counts once: {run} is {why}\n" in err
        assert {row["seeds"] for row in table(tmp_path / "out" / "compare.csv")} == {"1"}
    assert main(["evaluate", str(run), f"{run}/", "--trajectories", "6", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["run"] == str(run)  # one object: it was one run
    assert "counts once" in err


def test_of_a_run_and_its_unfinished_copy_the_one_that_got_further_counts(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    lines = (copy / "metrics.csv").read_text().splitlines(keepends=True)
    (copy / "metrics.csv").write_text("".join(lines[:-1]))
    assert main(["compare", str(copy), str(run)]) == 0
    assert "unfinished" not in capsys.readouterr().out


def test_two_explorers_of_one_name_and_seed_are_two_curves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [
        tuned(tmp_path / name, [(value, None)] * 4, policy(seed), init=f"{name}/explorer-seed-0")
        for name, seed, value in (("a", 1, 0.25), ("b", 2, 0.75))
    ]
    again = shutil.copytree(runs[0].path, tmp_path / "again")
    out = tmp_path / "out"
    assert main(["compare", *(str(r.path) for r in runs), str(again), "--out", str(out)]) == 0
    assert "again counts once" in capsys.readouterr().err
    (learner,) = learners(runs)
    assert [(curve.seed, curve.last.average_return) for curve in learner.curves] in (
        [(0, 0.25), (0, 0.75)],
        [(0, 0.75), (0, 0.25)],
    )
    assert len({row["start"] for row in table(out / "curves.csv")}) == 2
    assert main(["compare", str(out / "curves.csv"), str(runs[0].path), "--out", str(tmp_path / "o2")]) == 0
    assert len(table(tmp_path / "o2" / "curves.csv")) == 8  # the run is one of the table's two


# --- unfinished ---------------------------------------------------------------------------------------------------


def test_a_killed_exploration_is_marked_wherever_it_is_shown(
    tiny: Callable[..., ExploreConfig], tmp_path: Path, capsys: pytest.CaptureFixture[str], legends: list[list[str]]
) -> None:
    for seed, length in ((0, 3), (1, 2)):
        with RunDirectory.create(tmp_path / str(seed), EXPLORE, tiny(seed=seed), "{}") as made:
            for epoch in range(length):
                made.append(MetricsRow(epoch, 100 * epoch, optimise_s=None if epoch == 2 else 1.0, index=1.0 + epoch))
    (tmp_path / "0" / "domain.json").unlink()
    assert main(["compare", str(tmp_path / "0"), str(tmp_path / "1"), "--out", str(tmp_path / "out")]) == 0
    assert "unfinished)" in capsys.readouterr().out
    assert {row["runs"] for row in table(tmp_path / "out" / "compare.csv")} == {"mepol (1 unfinished)"}
    assert legends[0][0] == "mepol (1 unfinished) (2 seeds)"


def test_a_killed_fine_tuning_is_marked_wherever_it_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], legends: list[list[str]]
) -> None:
    whole = tuned(tmp_path / "a", [(0.5, 9.0)] * 4, None)
    killed = tuned(tmp_path / "b", [(0.25, 9.0)] * 2, None, seed=1)
    assert (whole.is_finished, killed.is_finished) == (True, False)
    out = tmp_path / "out"
    assert main(["compare", str(whole.path), str(killed.path), "--out", str(out)]) == 0
    assert "unfinished)" in capsys.readouterr().out
    assert [row["ended"] for row in table(out / "curves.csv")] == ["", "", "", "", "", "unfinished"]
    assert legends[0][0] == "trpo from scratch (1 unfinished) (2 seeds)"
    assert main(["compare", str(out / "curves.csv")]) == 0  # the table keeps the mark
    assert "unfinished)" in capsys.readouterr().out


def test_bands_of_steps_to_the_goal_make_nothing_up(tmp_path: Path) -> None:
    runs: list[FinetuneRun] = [
        tuned(tmp_path / "a", [(0.0, None), (0.5, 40.0), (0.0, None), (1.0, 20.0)], None),
        tuned(tmp_path / "b", [(0.5, 10.0), (0.0, None), (0.0, None), (1.0, 30.0)], None, seed=1),
    ]
    (learner,) = learners(runs)
    band = learning_band(learner, "steps_to_goal")
    assert band is not None
    assert band.x.tolist() == [0, 1, 3]  # at iteration 2 nobody reached it
    assert band.centre.tolist() == [10.0, 40.0, 25.0]  # and nobody lends a value to where it had none


# --- a stranger's files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["../../x", "/abs/x", "..", "a/../../b", "\x00", EVIL])
def test_names_of_tasks_make_files_inside_alone(task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "deeper" / "out"
    stranger = tuned(tmp_path / "run", [(0.5, 9.0)] * 4, None)
    config = json.loads((stranger.path / "config.json").read_text())
    (stranger.path / "config.json").write_text(json.dumps({**config, "task": task}))
    lines = [f"{task},x,0,0,0,0.5,0.5,,,scratch\n", f"{task},x,0,1,9,0.5,0.5,,,scratch\n"]
    if "\x00" not in task:
        (tmp_path / "curves.csv").write_text(HEAD + "".join(lines))
    given = [str(path) for path in (stranger.path, tmp_path / "curves.csv") if path.exists()]
    before = sorted(p.name for p in tmp_path.iterdir())
    assert main(["compare", *given, "--out", str(out)]) == 0
    made = list(tmp_path.rglob("*.png"))
    assert len(made) >= 3
    assert all(path.parent == out for path in made)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*before, "deep"])
    assert not Path("/abs/x").exists()
    assert "\x1b" not in capsys.readouterr().out


def test_dollars_reach_no_formula_and_formulas_no_spreadsheet(tmp_path: Path, legends: list[list[str]]) -> None:
    names = ["$\\frac{1}{$", "=HYPERLINK(1)", "+1+cmd|x", "@SUM(1)", "-2+3"]
    lines = [f'grid-goal1,"{name}",0,{i},{i},0.5,0.5,,,\n' for name in names for i in range(2)]
    (tmp_path / "curves.csv").write_text(HEAD + "".join(lines))
    assert main(["compare", str(tmp_path / "curves.csv"), "--out", str(tmp_path / "out")]) == 0
    assert legends[0][0] == "\\$\\frac{1}{\\$ (1 seed)"
    found = list(dict.fromkeys(row["learner"] for row in table(tmp_path / "out" / "curves.csv")))
    assert found == [names[0], *(f"'{name}" for name in names[1:])]


@pytest.mark.parametrize("damage", [b"1,2\n3\n", b"nan\n", b"\xff\n", b"", b"-1,2\n"])
def test_a_damaged_heatmap_costs_its_own_coverage_alone(
    damage: bytes, run: Path, tiny: Callable[..., ExploreConfig], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = shutil.copytree(run, tmp_path / "broken")
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps({**config, "seed": 8}))
    (broken / "heatmaps" / "epoch-00002.csv").write_bytes(damage)
    assert main(["compare", str(run), str(broken)]) == 0
    out, err = capsys.readouterr()
    assert "index" in out
    assert "epoch-00002.csv" in err
    assert "its coverage is left out" in err


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_escape_of_a_stranger_reaches_a_real_terminal(encoding: str, run: Path, tmp_path: Path) -> None:
    """The raw bytes of a real process: tables, sentences, warnings, and names of directories."""
    odd = shutil.copytree(run, tmp_path / "dir\x1b[31mü±")
    named = shutil.copytree(run, tmp_path / "named")
    config = json.loads((named / "config.json").read_text())
    (named / "config.json").write_text(json.dumps({**config, "env": EVIL, "seed": 9}))
    unknown = shutil.copytree(run, tmp_path / "unknown")
    (unknown / "config.json").write_text(json.dumps({**config, EVIL: 1}))
    rows = [f"{EVIL},{EVIL},0,{i},{i},0.5,0.5,,,{EVIL}\n" for i in range(2)]
    (tmp_path / "curves.csv").write_text(HEAD + "".join(rows))
    (tmp_path / "broken.csv").write_text(HEAD + f"{EVIL},x,{EVIL},0,0,,,,,\n")
    damaged = shutil.copytree(run, tmp_path / "damaged\x1b]0;x\x07")
    (damaged / "policy.safetensors").write_bytes(b"\x1b" * 50)
    out = str(tmp_path / "out")
    commands = [
        ["compare", str(odd), str(run), str(named)],
        ["compare", str(tmp_path / "curves.csv"), "--out", out],
        ["compare", str(tmp_path / "broken.csv")],
        ["evaluate", str(odd), str(named), "--trajectories", "6"],
        ["evaluate", str(unknown)],
        ["evaluate", str(damaged)],
        ["resume", str(named)],
        ["video", str(named), "--steps", "1"],
        ["horizon", str(odd), "--until", "9", "--points", "1", "--trajectories", "9", "--eps", "1", "--out", out],
        ["goals", str(odd), "--trajectories", "3"],
        ["animate", str(odd)],
    ]
    if encoding == "ascii":
        commands = commands[:6]
    code = f"from mepol.cli import main\nfor words in {commands!r}:\n    main(words)"
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, env=environment)
    text = done.stdout + done.stderr
    assert b"Traceback" not in text, text.decode(errors="replace")
    assert done.returncode == 0
    for byte in (b"\x1b", b"\x07", b"\xc2\x9b", b"\xe2\x80\xae"):
        assert byte not in text
    assert b"\\x1b]52;c;AAAA\\x07" in done.stdout  # shown instead, in a table
    assert b"\\x1b]52;c;AAAA\\x07" in done.stderr  # and in sentences
    assert done.stdout.isascii() == (encoding == "ascii")
    assert text.count(b"mepol: ") >= 3

"""What a finished run says of itself: its best is the file's, and what fell short is told."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

import mepol
from mepol.cli import main
from mepol.commands import compare
from mepol.console.summary import print_summary, uniform_index
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import explore, resume
from mepol.exploration.rows import MetricsRow
from mepol.figures.summary import summarise
from mepol.report import gather
from mepol.runs.directory import RunDirectory
from mepol.runs.drive import best_header, best_kept
from mepol.runs.policies import with_header


def test_the_best_is_that_of_the_file_after_a_run_was_made_longer(
    tiny: Callable[..., ExploreConfig], tmp_path: Path
) -> None:
    run = explore(tiny(epochs=1), tmp_path / "run")
    kept = best_kept(run)
    assert kept is not None
    run.save_policy(with_header(run.policy_path("best").read_bytes(), best_header(run, 1, 99.0)), "best")
    longer = resume(tmp_path / "run", length=2)
    assert longer.rows()[1].index != 99.0  # the file is what is kept, whatever the row says
    found = summarise(longer).best
    assert (found.epoch, found.index) == (1, 99.0)


@pytest.fixture
def told(tiny: Callable[..., ExploreConfig], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What is said of a run of one epoch with these indices."""

    def tell(first: float, last: float) -> str:
        run = explore(tiny(epochs=0), tmp_path / f"{first} {last}")
        rows = [MetricsRow(0, 0, optimise_s=1.0, index=first), MetricsRow(1, 240, index=last)]
        lines = "".join(map(run.phase.metrics.line, rows))
        (run.path / "metrics.csv").write_text(run.phase.metrics.head + lines)
        capsys.readouterr()
        print_summary(run)
        return capsys.readouterr().out

    return tell


def test_a_run_that_ends_low_says_below_what(told: Callable[..., str]) -> None:
    assert "it ends" not in told(50.0, 60.0)
    text = told(60.0, 50.0)
    assert "it ends below where it began (50.000 after 60.000 nats)" in text
    assert "uniform" not in text
    assert "it ends below uniform random play (-50.000 against " in told(-60.0, -50.0)
    both = told(-50.0, -60.0)
    assert "below where it began" in both
    assert "below uniform random play" in both


def test_uniform_play_is_measured_as_the_run_is(tiny: Callable[..., ExploreConfig], tmp_path: Path) -> None:
    uniform = explore(tiny(explorer="uniform"), tmp_path / "uniform")
    assert uniform_index(explore(tiny(epochs=0), tmp_path / "run"), 0) == uniform.rows()[0].index


def test_a_line_says_what_each_entropy_is_of(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sizes = ["--horizon", "40", "--trajectories", "4", "--k", "4", "--hidden", "8", "--evaluation-trajectories", "5"]
    words = ["--epochs", "1", "--eps", "1e-9", "--threads", "1", "--out", str(tmp_path / "run")]
    assert main(["explore", "gridworld", *sizes, *words]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch    0/1"))
    row = RunDirectory.open(tmp_path / "run").rows()[0]
    assert f"entropy (4 learnt from) {row.entropy:7.3f}" in line
    assert f"index (5 fresh) {row.index:7.3f}" in line


def test_a_fine_tuning_that_ends_low_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = {"horizon": 20, "trpo.steps": 40, "threads": 1, "hidden": (8,), "iterations": 1, "progress": False}
    run = mepol.finetune("Pendulum-v1", out=tmp_path / "run", **task).directory
    for first, last in ((-9.0, -5.0), (-5.0, -9.0)):
        rows = run.rows()
        kinds = type(rows[0])
        table = [kinds(0, 0, first, learn_s=1.0), kinds(1, 40, last)]
        (run.path / "metrics.csv").write_text(run.phase.metrics.head + "".join(map(run.phase.metrics.line, table)))
        capsys.readouterr()
        print_summary(run)
        assert ("it ends below where it began (-9.000 after -5.000)" in capsys.readouterr().out) == (last < first)


def test_the_ceiling_is_that_of_the_domain_wherever_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {"horizon": 30, "trajectories": 4, "evaluation_trajectories": 4, "hidden": (8,), "threads": 1, "k": 4}
    run = mepol.explore("Pendulum-v1", epochs=0, out=tmp_path / "run", progress=False, **sizes)
    assert run.config.ceiling is None  # an angle, and a speed of [-8, 8]
    truth = math.log(2 * math.pi * 16)
    assert run.summary().ceiling == pytest.approx(truth)
    print_summary(run.directory)
    assert f"(ceiling {truth:.3f})" in capsys.readouterr().out
    assert gather.gather([run.directory])["runs"][0]["limits"]["ceiling"] == pytest.approx(truth, abs=1e-6)
    drawn: list[float | None] = []
    original = compare.draw_bands
    monkeypatch.setattr(compare, "draw_bands", lambda *a, **k: drawn.append(k["ceiling"]) or original(*a, **k))
    assert main(["compare", str(run.path), "--out", str(tmp_path / "out")]) == 0
    assert pytest.approx(truth) in drawn

"""`mepol reproduce`: every figure of the paper has a name, is run where it is missing, and says what it shows."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

import mepol
from mepol.cli import main
from mepol.cluster.engines import ENGINES
from mepol.errors import ConfigError, RunError
from mepol.exploration.drive import explore
from mepol.exploration.presets import PRESETS
from mepol.exploration.study import Member
from mepol.finetuning.presets import default_config
from mepol.finetuning.tasks import TASKS
from mepol.reproduce.catalogue import chosen, figures, needed
from mepol.reproduce.draw import DRAWERS, draw
from mepol.reproduce.expected import stand
from mepol.reproduce.found import SUMMARY, SummaryRow, percent
from mepol.reproduce.page import BEGIN, END, write_page
from mepol.reproduce.studies import PAPER, SCALES, Scale, find_study, studies
from mepol.reproduce.work import Asked, run_missing
from mepol.runs.callbacks import Progress
from mepol.settings import to_json

SMOKE = Scale("smoke")


def test_every_study_makes_valid_settings_at_every_scale():
    for study in studies().values():
        for scale in map(Scale, SCALES):
            for variant in study.variants:
                for task in study.data.get("tasks", ()):
                    study.task(task, variant, scale)
                if not study.is_task:
                    study.exploration(variant, scale)
                assert study.samples(variant, scale) <= study.samples(variant, PAPER)


def test_paper_scale_is_the_papers_own():
    for name in ("gridworld", "mountain-car", "ant", "humanoid", "hand-reach"):
        assert find_study(name).exploration("mepol", PAPER) == PRESETS[name].config
    assert find_study("ant").exploration("maxent", PAPER) == PRESETS["ant"].config_for("maxent")
    assert find_study("grid-goals").task("grid-goal2", "mepol", PAPER) == default_config("grid-goal2")
    assert find_study("ant").samples("mepol", PAPER) == 2000 * 20 * 500
    assert PAPER.seeds(find_study("ant")) == 8
    assert PAPER.seeds(find_study("ant-maze")) == 2


def test_all_variants_of_a_figure_are_measured_on_one_scale():
    for study in studies().values():
        if not study.is_task and not study.name.startswith("sensitivity-k"):
            for scale in map(Scale, SCALES):
                configs = [study.exploration(variant, scale) for variant in study.variants]
                assert len({(config.ascent.k, config.ascent.eps) for config in configs}) == 1, study.name


def test_every_task_of_the_paper_has_a_figure_and_starts_from_the_papers_explorer():
    whole = [study for study in studies().values() if len(study.variants) > 1]
    shown = {task: study for study in whole for task in study.data.get("tasks", ())}
    assert set(shown) == set(TASKS)
    for task, study in shown.items():
        assert study.starts["mepol"] == (TASKS[task].explorer, "mepol")
        assert set(study.variants) == {"mepol", "trpo", "sac", "smm", "icm", "pseudocount"}


def test_every_figure_can_be_drawn_and_needs_its_starts():
    for figure in figures().values():
        assert figure.data["draw"] in DRAWERS
        assert figure.data["place"]
    assert needed(chosen(["fig-ant-navigate"]))["ant-xy"] == {"mepol"}
    assert list(needed(chosen(["fig-ant-navigate"]))) == ["ant-xy", "ant-navigate"]
    assert set(needed(chosen(["table-discrete"]))) == {"mountain-car", "ant", "humanoid"}
    with pytest.raises(ConfigError, match="did you mean 'fig-gridworld'"):
        chosen(["fig-gridwold"])


def test_what_is_there_is_not_run_again_and_the_figure_says_what_it_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A figure of curves and one of visits share runs; a table of other studies has none yet; the page says so."""
    words = ["reproduce", "fig-gridworld", "fig-gridworld-heatmaps", "--scale", "smoke", "--out", str(tmp_path)]
    asked = Asked(tmp_path / "smoke" / "runs", SMOKE)
    needs = needed(chosen(["fig-gridworld"]))
    assert (stand(needs, asked, 1, 1.0).runs, stand(needs, asked, 1, 1.0).done) == (2, 0)
    assert main(words) == 0
    assert stand(needs, asked, 1, 1.0).done == 2
    assert stand(needs, asked, 1, 1.0).seconds == 0
    run = mepol.open(asked.root / "gridworld" / "mepol-seed-0")
    (mepol_row, random_row) = SUMMARY.read(tmp_path / "smoke" / "fig-gridworld" / "summary.csv")
    assert mepol_row.value == pytest.approx(run.metrics["index"][-1], abs=1e-4)
    assert mepol_row.samples == run.metrics["samples"][-1] == 2 * 4 * 40
    assert mepol_row.share == pytest.approx(320 / (200 * 20 * 1200), abs=1e-6)
    assert (mepol_row.seeds, mepol_row.paper_seeds, random_row.share) == (1, 8, None)
    for name in ("fig-gridworld", "fig-gridworld-heatmaps"):
        assert (tmp_path / "smoke" / name / "figure.png").read_bytes().startswith(b"\x89PNG")

    before = {path: path.stat().st_mtime_ns for path in asked.root.rglob("metrics.csv")}
    picture = (tmp_path / "smoke" / "fig-gridworld" / "figure.png").read_bytes()
    assert main(words) == 0
    assert {path: path.stat().st_mtime_ns for path in asked.root.rglob("metrics.csv")} == before
    assert (tmp_path / "smoke" / "fig-gridworld" / "figure.png").read_bytes() == picture

    capsys.readouterr()
    assert main(["reproduce", "table-discrete", "--draw-only", "--scale", "smoke", "--out", str(tmp_path)]) == 1
    assert "has no measured run" in capsys.readouterr().err

    page = tmp_path / "docs" / "paper.md"
    page.parent.mkdir()
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_page(page, tmp_path, SCALES)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert f"| {mepol_row.value:.2f} | 1 of 8 | 320, {percent(320 / 4_800_000)} | fast | smoke |" in text
    assert "| fig-ant | | | | not run |" in text


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tmp_path: Path):
    asked = Asked(tmp_path / "smoke" / "runs", SMOKE)
    (member,) = asked.members(find_study("gridworld"), {"mepol"})

    whole = explore(member.config, tmp_path / "whole")

    def stop(progress: Progress) -> None:
        if progress.turn == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explore(member.config, member.path, report=stop)
    assert not mepol.open(member.path).finished
    assert main(["reproduce", "fig-gridworld-heatmaps", "--scale", "smoke", "--out", str(tmp_path)]) == 0
    assert (member.path / "policy.safetensors").read_bytes() == (whole.path / "policy.safetensors").read_bytes()


def test_a_task_figure_runs_its_explorer_first(tmp_path: Path):
    """TRPO from the explorer, by the same engine as explorations."""
    asked = Asked(tmp_path, SMOKE)
    with pytest.raises(RunError, match="it has no config"):
        asked.members(find_study("grid-goals"), {"mepol"})

    needs = {"gridworld": {"mepol"}, "grid-goals": {"mepol"}}
    assert run_missing(needs, asked, 2) == []
    run = mepol.open(tmp_path / "grid-goals" / "grid-goal1-mepol-seed-0")
    assert run.finished
    assert run.config.init == str(tmp_path / "gridworld" / "mepol-seed-0")

    paths = draw(chosen(["fig-grid-goals"])[0], tmp_path, tmp_path / "drawn", SMOKE)
    assert {p.name for p in paths} >= {"figure-grid-goal1.png", "figure-grid-goal3.png", "data.csv", "summary.csv"}
    rows = SUMMARY.read(tmp_path / "drawn" / "summary.csv")
    assert [row.series for row in rows] == [f"grid-goal{n} mepol" for n in (1, 2, 3)]
    assert rows[0].share == pytest.approx(80 / (100 * 12_000), abs=1e-6)


@pytest.mark.parametrize("folder", ["docs", "docs/results"])
def test_the_page_shows_what_was_recorded_from_any_depth(tmp_path: Path, folder: str):
    recorded = tmp_path / "results" / "recorded.toml"
    recorded.parent.mkdir()
    entry = {"figure": "fig-gridworld", "name": "mepol", "file": "a.csv", "measure": "index", "settings": "fast"}
    recorded.write_text("[[series]]\n" + "".join(f'{key} = "{value}"\n' for key, value in entry.items()))
    (tmp_path / "results" / "a.csv").write_text("seed,samples,index\n0,240000,4.0\n0,480000,4.5\n1,480000,4.3\n")
    page = tmp_path / folder / "paper.md"
    page.parent.mkdir(parents=True)
    page.write_text(f"{BEGIN}\n{END}\n")
    write_page(page, tmp_path / "nothing", SCALES)
    kept = "| fig-gridworld | mepol | index |  | 4.40 ± 1.27 | 2 of 8 | 4.8e+05, 10 % | fast | recorded |"
    assert kept in page.read_text()

    one = SummaryRow("fig-gridworld", "mepol", "index", 4.1, None, None, 1, 8, 9, 0.1, "fast", "quick", None)
    made = [one, replace(one, series="random", value=3.3)]
    table = tmp_path / "out" / "quick" / "fig-gridworld" / SUMMARY.name
    table.parent.mkdir(parents=True)
    table.write_text(SUMMARY.head + "".join(map(SUMMARY.line, made)))
    write_page(page, tmp_path / "out", SCALES)
    assert kept in page.read_text()  # two seeds say more than one
    assert "| fig-gridworld | random | index |  | 3.30 | 1 of 8 | 9, 10 % | fast | quick |" in page.read_text()
    table.write_text(SUMMARY.head + "".join(SUMMARY.line(replace(row, seeds=2)) for row in made))
    write_page(page, tmp_path / "out", SCALES)
    assert kept in page.read_text()  # as many seeds, and they learnt from more
    table.write_text(SUMMARY.head + "".join(SUMMARY.line(replace(row, seeds=3)) for row in made))
    write_page(page, tmp_path / "out", SCALES)
    assert "recorded" not in page.read_text()


def test_list_names_everything(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert main(["reproduce", "--list", "--scale", "paper", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in figures())
    assert "days" in shown


class Here:
    """An engine without processes: a member is worked on at once, by what its process would run."""

    def __init__(self, *_: object) -> None:
        self._codes: dict[str, int] = {}

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None: ...

    def start(self, member: Member) -> None:
        self._codes[member.name] = import_module(member.module).main(member.path, to_json(member.config))

    def ended(self) -> dict[str, int]:
        ended, self._codes = self._codes, {}
        return ended

    def is_running(self, name: str) -> bool:
        return name in self._codes


def test_smoke_makes_every_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The whole command with all runs in this process: nine tenths of such a small one are the start of its own."""
    monkeypatch.setitem(ENGINES, "local", Here)
    monkeypatch.setattr("mepol.reproduce.work.Processes", Here)
    assert main(["reproduce", "all", "--scale", "smoke", "--out", str(tmp_path)]) == 0
    for name, figure in figures().items():
        rows = SUMMARY.read(tmp_path / "smoke" / name / "summary.csv")
        tasks = {study.name: len(study.data.get("tasks", ("",))) for study in figure.studies}
        assert len(rows) == sum(tasks[study.name] * len(figure.variants(study)) for study in figure.studies), name
        assert {(row.figure, row.scale, row.seeds) for row in rows} == {(name, "smoke", 1)}
    runs = [mepol.open(path.parent) for path in (tmp_path / "smoke" / "runs").rglob("config.json")]
    assert len(runs) == stand(needed(chosen(["all"])), Asked(tmp_path / "smoke" / "runs", SMOKE), 1, 1.0).runs
    assert all(run.finished for run in runs)


@pytest.mark.torture
def test_smoke_makes_every_figure_in_processes(tmp_path: Path):
    """The same as a user types it: 91 processes, two at a time."""
    assert main(["reproduce", "all", "--scale", "smoke", "--jobs", "2", "--out", str(tmp_path)]) == 0
    assert all((tmp_path / "smoke" / name / "summary.csv").is_file() for name in figures())

"""Studies: read safely, worked off in processes, resumed, and a failure that stops nobody else."""

from __future__ import annotations

import csv
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from mepol.cli import main
from mepol.errors import ConfigError
from mepol.exploration.presets import PRESETS
from mepol.exploration.processes import Processes
from mepol.exploration.rows import EXPLORE, MetricsRow
from mepol.exploration.study import Member, read_study, seeds_of, study_of
from mepol.exploration.sweep import Epochs, Outcome, run_members
from mepol.runs.directory import RunDirectory

STUDY = """
preset = "gridworld"
seeds = [4]
[settings]
horizon = 40
trajectories = 3
epochs = 1
hidden = [8]
zero_mean_steps = 2
evaluation_trajectories = 4
k = 4
max_steps = 1
eps = 1e-12
[[variant]]
name = "plain"
[[variant]]
name = "random"
explorer = "random"
[[variant]]
name = "broken"
env = "NoSuch-v0"
"""


def states(out: Path) -> dict[str, str]:
    with (out / "summary.csv").open(newline="") as file:
        return {row["variant"]: row["state"] for row in csv.DictReader(file)}


def test_a_failed_member_stops_nobody_and_finished_ones_are_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    out = tmp_path / "out"
    command = ["sweep", str(tmp_path / "study.toml"), "--jobs", "3", "--out", str(out)]
    assert main(command) == 1
    err = capsys.readouterr().err
    assert "1 of 3 runs failed, the first is broken-seed-4" in err
    assert "NoSuch" in err
    assert states(out) == {"plain": "done", "random": "done", "broken": "failed"}
    run = RunDirectory.open(out / "plain-seed-4")
    assert run.is_finished
    assert (run.config.seed, run.config.policy.hidden, [r.epoch for r in run.rows()]) == (4, (8,), [0, 1])
    assert (out / "compare.csv").read_text().count("random,1,") == 5  # four measures and the coverage
    assert (out / "index.png").is_file()

    before = (out / "plain-seed-4" / "metrics.csv").stat().st_mtime_ns
    assert main([*command, "--only", "plain", "random-seed-4"]) == 0
    assert (out / "plain-seed-4" / "metrics.csv").stat().st_mtime_ns == before
    assert main([*command, "--set", "epochs=2", "--only", "plain"]) == 1  # another study must not overwrite this one
    assert "epochs = 1, and the study has 2" in capsys.readouterr().err


def test_a_study_is_its_preset_with_settings_and_variants() -> None:
    study = study_of(
        {
            "preset": "mountain-car",
            "seeds": 2,
            "settings": {"trajectories": 100},
            "variant": [{"name": "a", "k": 7}, {"name": "b", "preset": "mountain-car-tuned"}],
        }
    )
    assert study.seeds == (0, 1)
    assert study.variants["a"].ascent.k == 7
    assert study.variants["b"].policy.scale_inputs
    assert {c.trajectories for c in study.variants.values()} == {100}
    names = [m.name for m in study.members(Path("x"), 1)]
    assert names == ["a-seed-0", "a-seed-1", "b-seed-0", "b-seed-1"]
    assert study_of({"preset": "ant"}).variants == {"ant": PRESETS["ant"].config}


def test_threads_are_the_studys_own_or_else_the_share_of_each_member() -> None:
    study = study_of({"preset": "ant", "seeds": 1, "variant": [{"name": "own", "threads": 3}, {"name": "share"}]})
    assert [m.config.machine.threads for m in study.members(Path("x"), 2)] == [3, 2]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "needs preset"),
        ({"preset": "gridworld", "code": "x"}, "no entry 'code'"),
        ({"preset": "gridwold"}, "did you mean 'gridworld'"),
        ({"preset": "gridworld", "seeds": 0}, "seeds = 0"),
        ({"preset": "gridworld", "seeds": [1, 1]}, "twice"),
        ({"preset": "gridworld", "seeds": "many"}, "seeds = 'many'"),
        ({"preset": "gridworld", "settings": {"kk": 1}}, "no setting 'kk'"),
        ({"preset": "gridworld", "settings": {"k": "1"}}, "not of type int"),
        ({"preset": "gridworld", "variant": [{"k": 1}]}, "needs a name"),
        ({"preset": "gridworld", "variant": [{"name": "../up"}]}, "needs a name"),
        ({"preset": "gridworld", "variant": [{"name": "a"}, {"name": "a"}]}, "two variants"),
        ({"preset": "gridworld", "variant": [{"name": "a", "k": -1}]}, "variant 'a': k = -1 is not possible"),
    ],
)
def test_a_study_that_is_wrong_is_refused_by_name(data: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        study_of(data)


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.toml").write_text("preset = [")
    assert main(["sweep", str(tmp_path / "bad.toml")]) == 2
    assert "bad.toml" in capsys.readouterr().err
    assert seeds_of([5, 3]) == (5, 3)


@pytest.mark.parametrize("path", sorted(Path(__file__).parents[2].glob("studies/*.toml")), ids=lambda p: p.stem)
def test_every_study_of_the_repository_can_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEPOL_MODULES", "benchmarks/racing_position.py")  # as the study that names it says
    assert read_study(path).variants


# --- what may go wrong --------------------------------------------------------------------------------------------


def members_of(out: Path, **settings: object) -> list[Member]:
    small = {"horizon": 40, "trajectories": 3, "hidden": [8], "zero_mean_steps": 2, "evaluation_trajectories": 4}
    study = {"preset": "gridworld", "settings": {**small, "k": 4, "max_steps": 1, "eps": 1e-12, **settings}}
    return study_of({**study, "variant": [{"name": "a"}]}).members(out, 1)


def test_a_member_that_was_killed_says_by_which_signal(tmp_path: Path) -> None:
    (member,) = members_of(tmp_path, epochs=100_000)

    def kill(outcomes: Sequence[Outcome]) -> None:
        if outcomes[0].state == "running" and outcomes[0].epoch > 2:
            os.kill(int((member.path / "lock").read_text().split()[1]), signal.SIGKILL)

    (outcome,) = run_members([member], Processes(), 1, kill)
    assert (outcome.state, outcome.reason) == ("failed", "killed by the signal SIGKILL")
    assert outcome.epoch > 2


def test_a_second_sweep_into_the_same_directory_is_refused_and_the_first_unharmed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    members = read_study(tmp_path / "study.toml").members(tmp_path / "out", 1)
    refused: list[int] = []

    def second(outcomes: Sequence[Outcome]) -> None:
        if outcomes[0].state == "running" and not refused:
            refused.append(main(["sweep", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out")]))

    (outcome,) = run_members(members[:1], Processes(), 1, second)
    assert refused == [1]
    assert f"{tmp_path / 'out'} is in use by process {os.getpid()}" in capsys.readouterr().err
    assert outcome.state == "done"
    assert not (tmp_path / "out" / "summary.csv").exists()


@pytest.mark.parametrize("kind", ["link", "pipe", "hard link", "folder"])
def test_a_log_that_is_not_ours_is_refused_and_nothing_outside_touched(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "diary").write_text("mine")
    logs = tmp_path / "out" / "logs"
    logs.parent.mkdir()
    if kind == "folder":
        logs.symlink_to(outside)
    else:
        logs.mkdir()
        log = logs / "plain-seed-4.log"
        make = {"link": log.symlink_to, "pipe": lambda _: os.mkfifo(log), "hard link": log.hardlink_to}
        make[kind](outside / "diary")
    command = ["sweep", str(tmp_path / "study.toml"), "--only", "plain", "--out", str(tmp_path / "out")]
    assert main(command) == 1
    assert "nothing is written outside" in capsys.readouterr().err
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"diary": "mine"}


def test_a_hundred_million_seeds_are_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "study.toml").write_text(STUDY.replace("seeds = [4]", "seeds = 100000000"))
    for words in ([str(tmp_path / "study.toml")], ["gridworld", "--seeds", "100000000"]):
        assert main(["sweep", *words, "--out", str(tmp_path / "out")]) == 2
        assert "seeds = 100000000 is not possible: it must be at most" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_rows_of_a_member_are_read_when_they_have_changed_and_not_before(tmp_path: Path) -> None:
    (member,) = members_of(tmp_path)
    epochs = Epochs()
    assert epochs.of(member) == 0  # nothing there yet
    with RunDirectory.create(member.path, EXPLORE, member.config, "{}") as run:
        for epoch in range(4):
            run.append(MetricsRow(epoch, epoch))
        assert epochs.of(member) == 3
        table = member.path / "metrics.csv"
        before, text = table.stat(), table.read_text()
        table.write_text("#" * len(text))
        os.utime(table, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert epochs.of(member) == 3  # it looks the same from outside: it was not read
        table.write_text(text)
        run.append(MetricsRow(4, 4))
        assert epochs.of(member) == 4

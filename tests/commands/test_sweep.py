"""Studies: read safely, worked off in processes, resumed, and a failure that stops nobody else."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from mepol.cli import main
from mepol.errors import ConfigError
from mepol.exploration.presets import PRESETS
from mepol.exploration.study import read_study, seeds_of, study_of
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
        ({"preset": "gridworld", "variant": [{"name": "a", "k": 0}]}, "variant 'a': k = 0 is not possible"),
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
def test_every_study_of_the_repository_can_be_read(path: Path) -> None:
    assert read_study(path).variants

"""Labels of runs that are compared, and whether their numbers may stand side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mepol.cli import main
from mepol.errors import ConfigError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import explore
from mepol.runs.alike import alike
from mepol.runs.directory import RunDirectory
from mepol.runs.groups import differing, labels
from mepol.settings import with_settings


def test_few_settings_that_differ_are_all_named() -> None:
    tables = [{"explorer": "mepol", "k": k, "eps": 0.0, "rho": 1} for k in (4, 30)]
    assert labels(tables) == ["mepol k=4", "mepol k=30"]
    assert differing(tables) == ["k"]


def test_of_many_only_those_that_tell_runs_apart_are_named() -> None:
    base = dict.fromkeys("abcdef", 0)
    tables = [{"explorer": "mepol", **base}, {"explorer": "mepol", **dict.fromkeys("abcdef", 1)}]
    assert labels(tables) == ["mepol a=0", "mepol a=1"]
    third = {"explorer": "mepol", **dict.fromkeys("abcdef", 1), "d": 2}
    assert labels([*tables, third]) == ["mepol d=0", "mepol d=1", "mepol d=2"]  # d alone tells all three
    fourth = {"explorer": "mepol", **dict.fromkeys("abcdef", 0), "f": 1}
    found = labels([*tables, third, fourth])
    assert len(set(found)) == 4
    assert all(name.count("=") == 2 for name in found)  # no single setting tells four apart here


def test_what_looks_alike_is_numbered() -> None:
    long = "x" * 60
    tables = [{"explorer": "mepol", "features": f"{long}{end}"} for end in "ab"]
    first, second = labels(tables)
    assert (first[-3:], second[-3:]) == (" #1", " #2")
    assert first[:-1] == second[:-1]
    assert len(first) < 70


@pytest.fixture(scope="module")
def runs(tiny: Callable[..., ExploreConfig], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("alike")
    changes = {
        "plain": {},
        "k": {"k": 6},
        "short": {"horizon": 30},
        "x": {"features": "x"},
        "same": {"features": "x,y"},
    }
    for name, change in changes.items():
        explore(with_settings(tiny(), {"zero_mean_steps": 0, "epochs": 0, **change}), root / name)
    explore(with_settings(tiny(), {"env": "mepol/MountainCar-v0", "heatmap_axes": "0,1", "epochs": 0}), root / "car")
    return {path.name: path for path in root.iterdir()}


def found(runs: dict[str, Path], *names: str) -> list[str]:
    return alike([RunDirectory.open(runs[name]) for name in names]).differing


def test_what_an_index_is_of_and_rests_on(runs: dict[str, Path]) -> None:
    assert found(runs, "plain", "plain") == found(runs, "plain", "same") == []  # `all` is x and y
    assert found(runs, "plain", "k") == ["k"]
    assert found(runs, "plain", "short") == ["N"]
    assert found(runs, "plain", "x") == ["features"]
    assert found(runs, "plain", "car") == ["environment", "features"]
    both = [RunDirectory.open(runs[name]) for name in ("plain", "k")]
    assert alike(both, {"k": 5, "trajectories": 9}).differing == []  # measured anew with one k for both
    assert alike(both).words(["k"]) == "k (4, 6)"
    with pytest.raises(ConfigError, match=r"differ in features \(x,y, x\): .* --anyway"):
        alike([RunDirectory.open(runs[name]) for name in ("plain", "x")]).require_one_thing()


@pytest.mark.parametrize("command", ["compare", "evaluate"])
def test_different_things_are_refused_and_different_samples_marked(
    command: str, runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--trajectories", "5"] if command == "evaluate" else []
    paths = [str(runs["plain"]), str(runs["car"])]
    assert main([command, *paths, *few]) == 2
    assert "differ in environment (mepol/GridWorld-v0, mepol/MountainCar-v0)" in capsys.readouterr().err
    assert main([command, *paths, *few, "--anyway"]) == 0
    capsys.readouterr()
    assert main([command, str(runs["plain"]), str(runs["k"]), *few]) == 0
    assert "not on one scale, they differ in k (4, 6)" in capsys.readouterr().out
    assert main([command, str(runs["plain"]), str(runs["same"]), *few]) == 0
    assert "one scale" not in capsys.readouterr().out

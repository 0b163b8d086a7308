"""Several runs: evaluated together and compared, grouped by what they differ in."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mepol.cli import main
from mepol.errors import ConfigError
from mepol.evaluation import mean_interval
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import explore
from mepol.exploration.rows import EXPLORE, MetricsRow
from mepol.runs.directory import RunDirectory
from mepol.runs.groups import band, group_runs
from mepol.settings import flat_settings, with_settings


@pytest.fixture(scope="module")
def runs(tiny: Callable[..., ExploreConfig], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two seeds with k = 4 and one with k = 6."""
    root = tmp_path_factory.mktemp("runs")
    made = []
    for name, changes in {"a": {"seed": 1}, "b": {"seed": 2}, "c": {"seed": 1, "k": 6}}.items():
        explore(with_settings(tiny(), {"zero_mean_steps": 0, **changes}), root / name)
        made.append(root / name)
    return made


def test_runs_are_grouped_and_named_by_what_differs(runs: list[Path]) -> None:
    groups = group_runs([RunDirectory.open(path) for path in reversed(runs)])
    assert [group.name for group in groups] == ["mepol k=6", "mepol k=4"]
    assert [run.config.seed for run in groups[1].runs] == [1, 2]


def test_evaluate_of_several_runs_gives_rows_and_intervals(
    runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(path) for path in runs]
    assert main(["evaluate", *paths, "--trajectories", "8", "--horizons", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["run"] for row in found["runs"]] == paths
    index = found["groups"]["mepol k=4"]["index"]
    truth = mean_interval([row["index"] for row in found["runs"][:2]])
    assert (index["n"], index["mean"]["centre"]) == (2, truth.centre)
    assert (index["mean"]["low"], index["mean"]["high"]) == (truth.low, truth.high)
    assert found["groups"]["mepol k=6"]["index"]["mean"]["low"] is None
    assert found["runs"][0]["horizons"][0]["step_particles"] == 8
    assert main(["evaluate", *paths, "--trajectories", "6", "--pairs", "x:-6:0:3,y", "--mixing-threshold", "0.5"]) == 0
    text = capsys.readouterr().out
    for word in ("coverage", "mixing_steps", "discrete_entropy[x:-6:0:3,y]", "±"):
        assert word in text


def test_compare_prints_a_table_and_writes_csv_and_pictures(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["compare", *map(str, runs), "--out", str(out)]) == 0
    assert "mepol k=6" in capsys.readouterr().out
    with (out / "compare.csv").open(newline="") as file:
        rows = {(row["runs"], row["measure"]): row for row in csv.DictReader(file)}
    values = [row.index for path in runs[:2] for row in RunDirectory.open(path).rows()[-1:]]
    assert float(rows["mepol k=4", "index"]["mean"]) == pytest.approx(sum(values) / 2, abs=1e-5)
    assert rows["mepol k=6", "index"]["mean_low"] == ""
    visits = RunDirectory.open(runs[2]).load_visits(
        2
    )  # the last of the two epochs; 288 cells of GridWorld's grid are free
    assert float(rows["mepol k=6", "coverage"]["mean"]) == pytest.approx(np.count_nonzero(visits) / 288, abs=1e-6)
    with (out / "curves.csv").open(newline="") as file:
        curve = [row for row in csv.DictReader(file) if (row["runs"], row["seed"]) == ("mepol k=4", "2")]
    measured = [row for row in RunDirectory.open(runs[1]).rows() if row.index is not None]
    assert [(int(row["epoch"]), int(row["samples"])) for row in curve] == [(r.epoch, r.samples) for r in measured]
    assert [float(row["index"]) for row in curve] == pytest.approx([r.index for r in measured], rel=1e-8)
    for name in ("index", "discrete_entropy", "pooled_entropy", "cells"):
        with Image.open(out / f"{name}.png") as image:
            assert image.format == "PNG"


def test_curves_may_be_drawn_against_epochs(runs: list[Path], tmp_path: Path) -> None:
    pictures = {}
    for against in ("samples", "epoch"):
        assert main(["compare", *map(str, runs), "--out", str(tmp_path / against), "--against", against]) == 0
        pictures[against] = (tmp_path / against / "index.png").read_bytes()
    assert pictures["samples"] != pictures["epoch"]
    (group,) = group_runs([RunDirectory.open(path) for path in runs[:2]])
    assert band(group, against="epoch").x.tolist() == [0.0, 2.0]


def test_a_run_whose_environment_is_not_installed_is_compared_by_what_it_stored(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = tmp_path / "foreign"
    shutil.copytree(runs[0], foreign)
    config = foreign / "config.json"
    config.write_text(config.read_text().replace("mepol/GridWorld-v0", "Nowhere-v0"))
    for stored in (True, False):  # domain.json knows the reachable cells; runs of earlier versions have none
        assert main(["compare", str(foreign)]) == 0
        text = capsys.readouterr().out
        assert "index" in text
        assert ("coverage" in text) == stored
        (foreign / "domain.json").unlink(missing_ok=True)


def test_a_band_is_the_interval_at_common_samples(tiny: Callable, tmp_path: Path) -> None:
    made = []
    for seed, values in ((0, [1.0, 2.0, 5.0]), (1, [3.0, 4.0, 5.0])):
        with RunDirectory.create(tmp_path / str(seed), EXPLORE, tiny(seed=seed), "{}") as run:
            for epoch, value in enumerate(values):
                run.append(MetricsRow(epoch, 100 * epoch, index=value if epoch != 1 else None))
        made.append(run)
    (group,) = group_runs(made)
    found = band(group)
    assert found.x.tolist() == [0.0, 200.0]
    assert found.centre.tolist() == [2.0, 5.0]
    truth = mean_interval([1.0, 3.0])
    assert (found.low[0], found.high[0], found.low[1]) == (truth.low, truth.high, 5.0)


def test_settings_by_flat_name() -> None:
    config = with_settings(ExploreConfig(env="x"), {"k": 7, "hidden": [5], "horizon": 9, "learning_rate": 1})
    assert (config.ascent.k, config.policy.hidden, config.horizon, config.ascent.learning_rate) == (7, (5,), 9, 1.0)
    assert flat_settings(config)["k"] == 7
    with pytest.raises(ConfigError, match="no setting 'horizn'; did you mean 'horizon'"):
        with_settings(config, {"horizn": 3})
    with pytest.raises(ConfigError, match=r"k = 'many' is not of type int"):
        with_settings(config, {"k": "many"})


def test_no_run_and_no_such_run_are_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["compare"]) == 2
    assert "runs = 0" in capsys.readouterr().err
    assert main(["compare", str(tmp_path)]) == 1
    assert "not a run directory" in capsys.readouterr().err


def test_horizon_measures_every_run_and_draws_bands(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "h"
    words = ["--until", "80", "--points", "4", "--trajectories", "12", "--out", str(out)]
    assert main(["horizon", *map(str, runs), *words]) == 0
    with (out / "horizon.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["h"] for row in rows[:4]] == ["20", "40", "60", "80"]
    assert {row["step_particles"] for row in rows} == {"12"}
    assert len(rows) == 3 * 4
    assert str(out / "horizon.png") in capsys.readouterr().out


def test_horizon_adds_the_volume_that_is_asked_for(runs: list[Path], tmp_path: Path) -> None:
    words = ["--until", "80", "--points", "2", "--trajectories", "12"]
    found = {}
    for eps in ("1e-9", "1e3"):
        assert main(["horizon", str(runs[0]), *words, "--eps", eps, "--out", str(tmp_path / eps)]) == 0
        with (tmp_path / eps / "horizon.csv").open(newline="") as file:
            found[eps] = [float(row["average_entropy"]) for row in csv.DictReader(file)]
    assert all(more > less + 1 for more, less in zip(found["1e3"], found["1e-9"], strict=True))


def test_animate_draws_the_stored_visits(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.gif"
    assert main(["animate", str(runs[0]), "--out", str(out)]) == 0
    with Image.open(out) as film:
        assert film.n_frames == 2
    assert main(["animate", str(runs[0]), "--seconds", "0"]) == 2
    assert "seconds = 0" in capsys.readouterr().err

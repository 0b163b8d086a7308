"""The benchmark times what it says; its figures are for people, not for tests."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from bench import PARTS, bench_domain, options, worlds
from bench.__main__ import main
from mepol.errors import ConfigError


def test_every_part_is_timed_beside_its_floor() -> None:
    timings = bench_domain("mountain-car-fast", repetitions=1)
    assert [timing.part for timing in timings] == list(PARTS)
    for timing in timings:
        assert timing.ratio == timing.seconds / timing.floor > 0
        assert timing.spread[0] <= timing.seconds <= timing.spread[1]


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(ConfigError, match="no preset"):
        bench_domain("moutain")


def test_an_epoch_of_several_environments_is_timed_beside_a_plain_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    small = {"trajectories": 10, "horizon": 20, "k": 4, "max_steps": 1, "hidden": (8,), "zero_mean_steps": 0}
    monkeypatch.setattr(worlds, "SIZE", {**small, "max_entropy_drop": 1000.0})
    (tmp_path / "epoch.csv").write_text("measured before")
    assert main(["worlds", "--repetitions", "1", "--out", str(tmp_path), "--json"]) == 0
    ((timing,),) = json.loads(capsys.readouterr().out)["added"].values()
    assert timing["domain"] == "gridworld-slope"
    assert timing["ratio"] == timing["seconds"] / timing["floor"] > 0
    (row,) = csv.DictReader((tmp_path / "worlds.csv").read_text().splitlines())
    assert float(row["ratio"]) == pytest.approx(timing["ratio"], rel=1e-4)
    assert (tmp_path / "epoch.csv").read_text() == "measured before"


def test_an_option_is_timed_beside_the_plain_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """One short preset stands for all: what is tested is that both epochs are made and set in relation."""
    small = {"horizon": 40, "trajectories": 4, "hidden": (8,), "max_steps": 1}
    monkeypatch.setitem(options.OPTIONS, "small", lambda config: {**small, "reuse": 2})
    timing = options.bench_option("mountain-car-fast", "small", repetitions=1)
    assert (timing.domain, timing.part) == ("mountain-car-fast", "small")
    assert timing.ratio == timing.seconds / timing.floor > 0

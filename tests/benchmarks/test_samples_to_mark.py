"""Samples to a mark are those of the first evaluation that reaches it."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mepol
import samples_to_mark
from mepol.exploration.drive import explore


def test_the_first_evaluation_at_the_mark_counts(
    tiny: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seed in (("a", 0), ("a", 1), ("b", 0)):
        explore(tiny(evaluate_every=1, epochs=2, seed=seed), tmp_path / "sweep" / f"{name}-seed-{seed}")
    index = mepol.open(tmp_path / "sweep" / "a-seed-0").metrics["index"]
    mark = float(np.sort(index)[1])
    first = int(np.flatnonzero(index >= mark)[0])
    samples_to_mark.main([str(tmp_path / "sweep"), "--mark", repr(mark), "--out", str(tmp_path / "out")])
    with (tmp_path / "out" / "sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["variant"], row["seed"]) for row in rows] == [("a", "0"), ("a", "1"), ("b", "0")]
    assert int(rows[0]["samples_to_mark"]) == first * 240
    assert rows[0]["last_samples"] == "480"
    assert rows[2] == {**rows[0], "variant": "b"}  # the same run
    assert capsys.readouterr().out.count("reach") == 2
    samples_to_mark.main([str(tmp_path / "sweep"), "--mark", "1e9"])
    assert "a: 0 of 2 reach 1e+09: never" in capsys.readouterr().out


def test_a_place_without_runs_is_told(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        samples_to_mark.main([str(tmp_path), "--mark", "0"])

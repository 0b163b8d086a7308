"""Exponents of exact power laws, what is skipped, and from where on the search is the bottleneck."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from bench import PARTS, SWEEPS, Growth, Point
from bench.__main__ import main
from bench.growth import Sizes, larger_half, measure_growth, predict, slope
from bench.walk import Walk
from mepol.errors import EnvironmentFault

SIZES = (1, 10, 100, 1000, 10_000)


def growth_of(**curves: list[float | None]) -> Growth:
    return Growth("N", tuple(Point("N", n, p, s) for p, c in curves.items() for n, s in zip(SIZES, c, strict=True)))


@pytest.mark.parametrize("power", [0.0, 1.0, 1.7, 2.0])
def test_the_slope_of_a_power_law_is_its_power(power: float) -> None:
    curve = [(n, 3e-4 * n**power) for n in SIZES]
    assert slope(curve) == pytest.approx(power, abs=1e-12)
    assert predict(curve[:3], 10_000) == pytest.approx(curve[-1][1])


def test_n_log_n_is_told_from_n_squared() -> None:
    sizes = (10_000, 100_000, 1_000_000)
    assert 1.05 < slope([(n, n * np.log(n)) for n in sizes]) < 1.15
    assert slope([(n, float(n) ** 2) for n in sizes]) == pytest.approx(2.0)


def test_exponents_are_of_the_larger_half_where_overhead_no_longer_counts() -> None:
    overhead: list[float | None] = [1.0, 1.0, 1.0, 10.0, 100.0]
    assert growth_of(sampling=overhead).exponents == {"sampling": pytest.approx(1.0)}
    assert larger_half([(1, 1.0), (2, 2.0)]) == [(1, 1.0), (2, 2.0)]
    assert growth_of(sampling=[1.0, None, None, None, None]).exponents == {}


def test_one_point_is_taken_as_linear_and_none_as_free() -> None:
    assert predict([], 10) == 0.0
    assert predict([(10, 2.0)], 40) == pytest.approx(8.0)
    assert predict([(10, 2.0), (20, 1.0)], 40) == pytest.approx(1.0)  # what fell is not taken to fall for ever
    assert predict([(40, 1.0), (41, 9.0)], 82) == pytest.approx(36.0)  # nor what jumped to go on jumping


def test_the_bottleneck_is_where_the_search_stays_above_the_optimiser() -> None:
    optimise: list[float | None] = [2.0, 2.0, 2.0, 2.0, 2.0]
    assert growth_of(neighbours=[3.0, 1.0, 1.0, 3.0, 4.0], optimise=optimise).bottleneck == 1000
    assert growth_of(neighbours=[3.0, 1.0, 3.0, 3.0, None], optimise=optimise).bottleneck == 100
    assert growth_of(neighbours=[1.0, 1.0, 3.0, 1.0, None], optimise=optimise).bottleneck is None
    assert growth_of(neighbours=[1.0] * 5, optimise=optimise).bottleneck is None
    assert growth_of(neighbours=[3.0] * 5, optimise=optimise).bottleneck == 1


def test_every_part_is_measured_at_every_size_within_the_budget() -> None:
    seen: list[Point] = []
    growth = measure_growth("N", (100, 200), lambda v: Sizes(n=v, dim=3, k=2, m=10), budget=1e9, report=seen.append)
    assert [(p.size, p.part) for p in growth.points] == [(n, part) for n in (100, 200) for part in PARTS]
    assert all(p.seconds is not None and p.seconds > 0 and p.predicted is None for p in growth.points)
    assert seen == list(growth.points)
    assert set(growth.exponents) == set(PARTS)


def test_what_would_exceed_the_budget_is_skipped_and_says_what_it_would_take() -> None:
    growth = measure_growth("N", (100, 300), lambda v: Sizes(n=v, m=10), budget=1e-9)
    first, (skipped,) = growth.points[:3], growth.points[3:]  # without a batch there is nothing else to skip
    assert all(p.seconds is not None for p in first)
    assert (skipped.size, skipped.part, skipped.seconds) == (300, "sampling", None)
    assert skipped.predicted == pytest.approx(3 * growth.points[0].seconds)


def test_the_sweeps_grow_one_size_as_far_as_they_say() -> None:
    base = Sizes()
    assert [SWEEPS["N"].at(v).n for v in SWEEPS["N"].values][:: len(SWEEPS["N"].values) - 1] == [1000, 1_000_000]
    assert {SWEEPS["D"].at(v).n for v in SWEEPS["D"].values} == {base.n}
    assert (SWEEPS["D"].values[0], SWEEPS["D"].values[-1]) == (2, 200)
    assert (SWEEPS["k"].values[0], SWEEPS["k"].values[-1]) == (4, 500)
    assert all(SWEEPS["M"].at(v) == Sizes(n=500 * v, m=v) for v in SWEEPS["M"].values)
    assert all(s.at(v).n % s.at(v).m == 0 and s.at(v).k < s.at(v).n for s in SWEEPS.values() for v in s.values)


def test_walkers_stay_in_their_box_and_move_as_they_act() -> None:
    env = Walk(5, 7)
    before, _ = env.reset(seed=1)
    after, *_ = env.step(np.full((5, 7), 0.1))
    np.testing.assert_allclose(after, np.minimum(before + 0.1, 6.0))
    for _ in range(100):
        last, *_ = env.step(np.full((5, 7), 5.0))
    np.testing.assert_array_equal(last, np.full((5, 7), 6.0))
    with pytest.raises(EnvironmentFault):
        env.reset(seed=[1, 2])


def test_the_command_writes_what_it_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # other tests run beside this one
    assert main(["growth", "--sweeps", "N", "--seconds", "1e-9", "--out", str(tmp_path), "--json"]) == 0
    (growth,) = json.loads(capsys.readouterr().out)["growth"]
    with (tmp_path / "growth.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["size"], r["part"]) for r in rows] == [(str(p["size"]), p["part"]) for p in growth["points"]]
    assert rows[0]["seconds"]
    assert not rows[-1]["seconds"]
    assert float(rows[-1]["predicted"]) > 0
    assert (tmp_path / "growth.png").stat().st_size < 150_000
    assert not (tmp_path / "epoch.csv").exists()


def test_wrong_values_are_refused_before_anything_is_timed(capsys: pytest.CaptureFixture) -> None:
    assert main(["growth", "--sweeps", "Q"]) == 2
    assert "no sweep 'Q'" in capsys.readouterr().err
    assert main(["growth", "--seconds", "0"]) == 2
    assert "seconds = 0" in capsys.readouterr().err

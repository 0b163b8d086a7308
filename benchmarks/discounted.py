"""What policies that were learnt for a discount of the states are worth under each discount.

    mepol sweep studies/discount-gridworld.toml --jobs 2
    python benchmarks/discounted.py sweeps/discount-gridworld --out results/discount/index.csv

Every run's last policy is measured on the same fresh trajectories with the discounts of all runs of the sweep. Prints a
line per variant and discount, and writes a row per run and discount.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import mepol
from mepol.evaluation.statistics import mean_interval

COLUMNS = ("variant", "seed", "learnt_for", "measured_with", "start_index", "index")


def rows_of(sweep: Path, trajectories: int) -> list[tuple[str, int, float, float, float, float]]:
    """A row of COLUMNS per run of the sweep and discount."""
    runs = [mepol.open(path) for path in sorted(sweep.glob("*-seed-*")) if (path / "config.json").exists()]
    discounts = sorted({run.config.ascent.state_discount for run in runs}, reverse=True)
    found = []
    for run in runs:
        variant, own = run.path.name.rpartition("-seed-")[0], run.config.ascent.state_discount
        for discount in discounts:
            start, end = (
                run.evaluate(which=which, trajectories=trajectories, discount=discount).evaluation.index
                for which in ("initial", "last")
            )
            found.append((variant, run.config.seed, own, discount, round(start, 4), round(end, 4)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--trajectories", type=int, default=100)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    rows = rows_of(asked.sweep, asked.trajectories)
    if not rows:
        parser.error(f"{asked.sweep} holds no run (a directory NAME-seed-S)")
    groups = defaultdict(list)
    for variant, _, _, discount, start, end in rows:
        groups[variant, discount].append((start, end))
    for (variant, discount), pairs in groups.items():
        start, end = (mean_interval([pair[i] for pair in pairs]) for i in (0, 1))
        print(f"{variant:16} measured with {discount:g}: {start} -> {end}")
    if asked.out:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        with asked.out.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()

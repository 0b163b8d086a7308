"""Samples until the entropy index of a sweep's runs first reaches a mark, per variant and seed.

    mepol sweep studies/reuse-gridworld.toml --jobs 2
    python benchmarks/samples_to_mark.py sweeps/reuse-gridworld --mark 4.3 --out results/reuse

Prints a line per variant and, with --out, writes NAME.csv: a row per run, empty where the mark was not reached, with
the samples and the index of its last evaluation beside it.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import numpy as np

import mepol

COLUMNS = ("variant", "seed", "mark", "samples_to_mark", "last_samples", "last_index", "best_index")


def first_at(run: mepol.Run, mark: float) -> int | None:
    """Samples of the first evaluated policy whose index is at least `mark`; None where there is none."""
    table = run.metrics
    reached = np.flatnonzero(np.nan_to_num(table["index"], nan=-np.inf) >= mark)
    return int(table["samples"][reached[0]]) if reached.size else None


def rows_of(sweep: Path, mark: float) -> list[tuple[str, int, float, int | None, int, float, float]]:
    """A row of COLUMNS per run of the sweep, by variant and seed."""
    found = []
    for path in sorted(sweep.glob("*-seed-*")):
        if not (path / "config.json").exists():
            continue
        run = mepol.open(path)
        index, variant = run.metrics["index"], path.name.rpartition("-seed-")[0]
        last = np.flatnonzero(~np.isnan(index))[-1]
        measured = (round(float(index[last]), 4), round(float(np.nanmax(index)), 4))
        found.append(
            (variant, run.config.seed, mark, first_at(run, mark), int(run.metrics["samples"][last]), *measured)
        )
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--mark", type=float, required=True, help="entropy index, in nats")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(arguments)
    rows = rows_of(asked.sweep, asked.mark)
    if not rows:
        parser.error(f"{asked.sweep} holds no run (a directory NAME-seed-S)")
    groups = defaultdict(list)
    for variant, _, _, samples, _, last, _ in rows:
        groups[variant].append((samples, last))
    for variant, runs in groups.items():
        marks = [samples for samples, _ in runs if samples is not None]
        mean = f"{np.mean(marks):,.0f} samples on average" if marks else "never"
        print(f"{variant}: {len(marks)} of {len(runs)} reach {asked.mark:g}: {mean}; in the end", end=" ")
        print(", ".join(f"{last:.3f}" for _, last in runs))
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        with (asked.out / f"{asked.sweep.name}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()

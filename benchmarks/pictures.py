"""Runs from pictures as a table: the index of the embedding and of the true state, first and last, beside uniform play.

    mepol sweep studies/pixels-gridworld.toml --out runs/pixels --jobs 1
    MEPOL_MODULES=benchmarks/racing_position.py mepol sweep studies/pixels-car-racing.toml --out runs/racing --jobs 1
    python benchmarks/pictures.py runs/pixels runs/racing --table results/pictures/index.csv

Each row is a seed: its encoder is its own, so that embeddings compare within a row alone; `uniform` is of the same
seed, encoder and particles. After the rows stand the means over seeds with their 95 % intervals.
"""

from __future__ import annotations

import argparse
import csv
import os
from pathlib import Path
from typing import Any

import numpy as np

import mepol
from mepol.evaluation.statistics import mean_interval

MEASURES = ("index", "true_index", "discrete_entropy")
COLUMNS = (
    *("study", "seed", "samples"),
    *(f"{measure}_{when}" for measure in MEASURES for when in ("start", "end", "uniform")),
)


def rows_of(study: Path) -> list[dict[str, Any]]:
    rows = []
    for path in sorted(study.glob("*-seed-*")):
        variant, _, seed = path.name.rpartition("-seed-")
        if variant == "uniform" or not (path / "metrics.csv").exists():
            continue
        metrics = mepol.open(path).metrics
        uniform = mepol.open(study / f"uniform-seed-{seed}").metrics
        row: dict[str, Any] = {"study": f"{study.name} {variant}", "seed": seed, "samples": int(metrics["samples"][-1])}
        for measure in MEASURES:
            measured = metrics[measure][np.isfinite(metrics[measure])]
            row |= {f"{measure}_start": measured[0], f"{measure}_end": measured[-1]}
            row[f"{measure}_uniform"] = uniform[measure][-1]
        rows.append(row)
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for study in dict.fromkeys(row["study"] for row in rows):
        mine = [row for row in rows if row["study"] == study]
        means = {name: mean_interval([float(row[name]) for row in mine]) for name in COLUMNS[3:]}
        head = {"study": study, "samples": mine[0]["samples"]}
        for kind in ("centre", "low", "high") if len(mine) > 1 else ():
            found.append({**head, "seed": kind, **{name: getattr(means[name], kind) for name in means}})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", type=Path, nargs="+")
    parser.add_argument("--table", type=Path, required=True)
    asked = parser.parse_args()
    os.environ["MEPOL_MODULES"] = "benchmarks/racing_position.py"  # which these runs were made with
    rows = [row for study in asked.studies for row in rows_of(study)]
    asked.table.parent.mkdir(parents=True, exist_ok=True)
    with asked.table.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in (*rows, *summary(rows)):
            writer.writerow({k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items()})
    print(asked.table.read_text())


if __name__ == "__main__":
    main()

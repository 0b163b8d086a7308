"""What the mean of the last policies covers, beside the newest: the same run measured several ways.

    python benchmarks/averaging.py ENV [--seeds 3] [--csv FILE]

Each run is `mepol explore ENV --seed S --average 0`. A line is a run after a third, two thirds and all of its epochs:
the index of the newest policy, and of the means of which an epoch leaves 0.5, 0.7, 0.8 and 0.9 as they are, on as many
fresh trajectories as the run itself is measured on.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path
from typing import Any

import mepol
from mepol.algorithm.average import Average
from mepol.runs.callbacks import Progress
from mepol.runs.files import write_bytes
from mepol.runs.tables import csv_text

SHARES = (0.5, 0.7, 0.8, 0.9)


def measured(env: str, seed: int) -> list[tuple[Any, ...]]:
    learnt: list[Any] = []

    def keep(progress: Progress) -> None:
        if progress.batch is not None:  # the last turn measures, and learns nothing
            learnt.append(copy.deepcopy(progress.policy))

    run = mepol.explore(env, seed=seed, average=0.0, evaluate_every=0, threads=1, callbacks=[keep], progress=False)

    def index(policy: Any) -> float:
        fresh = run.config.evaluation.evaluation_trajectories
        return mepol.evaluate(policy, env, trajectories=fresh, horizon=run.config.horizon).evaluation.index

    rows, ends = [], [len(learnt) * third // 3 for third in (1, 2, 3)]
    means = {share: Average(learnt[0], share) for share in SHARES}
    for n, newest in enumerate(learnt, start=1):
        for mean in means.values():
            mean.take(newest, n)
        if n in ends:
            rows.append((env.rpartition(":")[2], seed, n, index(newest), *(index(m.policy) for m in means.values())))
            print(*rows[-1][:3], *(f"{value:.3f}" for value in rows[-1][3:]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--csv", type=Path)
    asked = parser.parse_args()
    rows = [row for seed in range(asked.seeds) for row in measured(asked.env, seed)]
    if asked.csv:
        head = ("environment", "seed", "epochs", "newest", *(f"mean_{share}" for share in SHARES))
        write_bytes(asked.csv, csv_text(head, rows).encode())


if __name__ == "__main__":
    main()

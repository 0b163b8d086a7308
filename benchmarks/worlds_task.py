"""A task in the rare world, learnt from each explorer of a sweep of studies/worlds-gridworld-slope.toml.

    python benchmarks/worlds_task.py sweeps/worlds-gridworld-slope --out DIR [--csv FILE] [--seeds 3] [--iterations 15]

The task is to come within half a unit of (5, 5), in the far room, where the start slopes back: TRPO with the paper's
settings of GridGoal1, 400 steps. A line is an explorer: the share of the trajectories of its first batch, and of its
last three, that get there.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mepol
from mepol.runs.files import write_bytes
from mepol.runs.tables import csv_text

GOAL, RADIUS, LAST = (5.0, 5.0), 0.5, 3


def is_there(states: NDArray[np.floating]) -> NDArray[np.bool_]:
    return np.hypot(states[:, 0] - GOAL[0], states[:, 1] - GOAL[1]) <= RADIUS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=15)
    asked = parser.parse_args()
    rows: list[tuple[Any, ...]] = []
    for seed in range(asked.seeds):
        for variant in ("tail", "mean"):
            explorer = mepol.open(asked.sweep / f"{variant}-seed-{seed}")
            rare = min(explorer.config.worlds.envs, key=lambda world: world["probability"])
            run = mepol.finetune(
                is_there,
                init=explorer,
                env=rare["env"],
                env_kwargs=rare["env_kwargs"],
                seed=seed,
                iterations=asked.iterations,
                out=asked.out / f"{variant}-seed-{seed}",
                **{"threads": 1, "trpo.steps": 12_000, "trpo.kl": 1e-4, "progress": False},
            )
            shares = run.metrics["average_return"]
            shares = shares[np.isfinite(shares)]
            rows += [(variant, seed, i, float(share)) for i, share in enumerate(shares)]
            print(
                f"{variant} seed {seed}: first batch {shares[0]:.2f}, last {LAST} {shares[-LAST:].mean():.2f}",
                flush=True,
            )
    if asked.csv:
        write_bytes(asked.csv, csv_text(("explorer", "seed", "iteration", "average_return"), rows).encode())


if __name__ == "__main__":
    main()

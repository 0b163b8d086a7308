"""Environments that nobody described, explored by name alone: the entropy index before and after, over seeds.

    python benchmarks/any_environment.py --out DIR [--seeds 3] [--jobs 2]     runs what is missing
    python benchmarks/any_environment.py --out DIR --table results/any/index.csv

Each run is `mepol explore ENV --seed S`, without any other flag. The table has, per environment, the mean over seeds of
the index of the first and of the last policy, their 95 % intervals, the index of uniform random play, samples and
seconds of a run, whether the intervals are apart, and the index of the last policies of RND and APT at equal samples:
`mepol explore ENV --explorer rnd --ppo-kl KL --seed S`, the same networks and inputs, for each KL below, of which the
table has the one that ends higher (they have no policy for discrete actions).
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import mepol
from mepol.evaluation.statistics import mean_interval

ROOM = f"{Path(__file__).with_name('walled_room.py')}:WalledRoom"
ENVIRONMENTS = (
    *("Pendulum-v1", "Hopper-v5", "HalfCheetah-v5", "Swimmer-v5", "Reacher-v5", "Pusher-v5"),
    *("MountainCarContinuous-v0", "CartPole-v1", "Acrobot-v1", "FetchReach-v4", "PointMaze_UMaze-v3"),
    *("dm_control/cartpole-swingup-v0", "BipedalWalker-v3", ROOM),
)
RIVALS = ("rnd", "apt")
RIVAL_KLS = ("0.003", "0.03")  # action KL per epoch: their default, and that of MEPOL's own passes
DISCRETE = ("CartPole-v1", "Acrobot-v1")
COLUMNS = (
    *("environment", "seeds", "samples", "seconds", "start", "start_low", "start_high", "end", "end_low", "end_high"),
    *("uniform", "apart"),
    *(f"{rival}{column}" for rival in RIVALS for column in ("", "_low", "_high", "_seeds", "_kl")),
)


def place(out: Path, env: str, seed: int, kind: str = "mepol") -> Path:
    name = env.rpartition(":")[2].replace("/", "-")
    return out / f"{name}-{kind}-seed-{seed}"


def run(out: Path, env: str, seed: int, kind: str) -> None:
    path = place(out, env, seed, kind)
    if (path.parent / f"{path.name}.seconds").exists():
        return
    begun = time.monotonic()
    name, _, kl = kind.partition("-")
    explorer = [] if kind == "mepol" else ["--explorer", name, *(["--ppo-kl", kl] if kl else [])]
    begin = ["explore", env, "--seed", str(seed), "--out", str(path), *explorer]
    argv = [sys.executable, "-m", "mepol", *(["resume", str(path)] if path.exists() else begin)]
    env_vars = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (out / f"{path.name}.log").open("w") as log:
        code = subprocess.run(argv, stdout=log, stderr=log, env=env_vars).returncode
    print(f"{path.name}: exit {code}, {time.monotonic() - begun:.0f} s", flush=True)
    if code == 0:
        (out / f"{path.name}.seconds").write_text(f"{time.monotonic() - begun:.0f}")


def seeds_of(out: Path, env: str, kind: str = "mepol") -> list[int]:
    """Those whose run is finished."""
    return [s for s in range(100) if (out / f"{place(out, env, s, kind).name}.seconds").exists()]


def band(values: list[float]) -> list[float]:
    """Mean, and the ends of its 95 % interval; NaN where there is none."""
    found = dataclasses.astuple(mean_interval(values))[:3] if values else (np.nan,) * 3
    return [round(np.nan if v is None else v, 3) for v in found]


def table(out: Path, file: Path) -> None:
    os.environ["MEPOL_MODULES"] = ROOM.rpartition(":")[0]
    rows = []
    for env in ENVIRONMENTS:
        if not (seeds := seeds_of(out, env)):
            continue
        runs = [mepol.open(place(out, env, s)) for s in seeds]
        start, end = (band([r.metrics["index"][row] for r in runs]) for row in (0, -1))
        seconds = np.mean([float((out / f"{place(out, env, s).name}.seconds").read_text()) for s in seeds])
        uniform = place(out, env, 0, "uniform")
        played = mepol.open(uniform).metrics["index"][-1] if uniform.exists() else np.nan
        name = env if env != ROOM else "benchmarks/walled_room.py:WalledRoom"
        row = [name, len(seeds), int(runs[0].metrics["samples"][-1]), round(float(seconds)), *start, *end]
        row += [round(float(played), 3), end[1] > start[2]]
        for rival in RIVALS:
            tried = {kl: f"{rival}-{kl}" for kl in RIVAL_KLS}
            ends = {
                kl: [mepol.open(place(out, env, s, kind)).metrics["index"][-1] for s in seeds_of(out, env, kind)]
                for kl, kind in tried.items()
            }
            best = max(ends, key=lambda kl: np.mean(ends[kl]) if ends[kl] else -np.inf)
            row += [*band(ends[best]), len(ends[best]), best if ends[best] else ""]
        rows.append(row)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([COLUMNS, *rows])
    for row in rows:
        print(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", type=Path)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.table is not None:
        table(asked.out, asked.table)
        return
    jobs = [(env, 0, "uniform") for env in ENVIRONMENTS]
    jobs += [(env, seed, "mepol") for seed in range(asked.seeds) for env in ENVIRONMENTS]
    paid = [env for env in ENVIRONMENTS if env not in DISCRETE]
    kinds = [f"{rival}-{kl}" for kl in RIVAL_KLS for rival in RIVALS]
    jobs += [(env, seed, kind) for seed in range(asked.seeds) for kind in kinds for env in paid]
    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(lambda job: run(asked.out, *job), jobs))


if __name__ == "__main__":
    main()

"""Whether the lowest share lifts the rare world: the sweeps of studies/worlds-*.toml, world by world.

    mepol sweep studies/worlds-gridworld-slope.toml --jobs 1
    python benchmarks/worlds.py sweeps/worlds-gridworld-slope [--csv FILE] [--picture FILE]

A line is a variant and a world: mean over seeds of the index of the last policy with its 95 % t interval, from
worlds.csv. Then, for the world that is rarest (or, of equal chances, the one that the mean leaves lowest), the gain of
the variant `tail` over `mean`: whether the two intervals are apart, and the gain seed by seed, since two runs of a seed
start from the same policy. The picture is of that world over the epochs.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from mepol.evaluation.statistics import Interval, mean_interval
from mepol.exploration.worlds.measures import world_rows
from mepol.figures.bands import draw_bands
from mepol.run import Run
from mepol.runs.files import write_bytes
from mepol.runs.groups import band_of
from mepol.runs.tables import csv_text


def last_indices(sweep: Path) -> tuple[dict[tuple[str, str], dict[int, float]], dict[str, float]]:
    """(variant, world) -> seed -> index of the last policy; world -> its probability."""
    found: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    chances: dict[str, float] = {}
    for path in sorted(sweep.glob("*-seed-*")):
        run = Run.open(path)
        rows = world_rows(run.directory)
        for row in rows:
            if row.epoch == rows[-1].epoch:
                found[path.name.rpartition("-seed-")[0], row.world][run.config.seed] = row.index
                chances[row.world] = row.probability
    return found, chances


def picture(sweep: Path, world: str) -> bytes:
    """PNG of the index in `world` over the epochs, a band over the seeds of each variant."""
    curves: dict[str, list[Any]] = defaultdict(list)
    for path in sorted(sweep.glob("*-seed-*")):
        points = [(row.epoch, row.index) for row in world_rows(Run.open(path).directory) if row.world == world]
        curves[path.name.rpartition("-seed-")[0]].append(np.array(points, dtype=np.float64))
    bands = {variant: band for variant, mine in curves.items() if (band := band_of(mine)) is not None}
    return draw_bands(bands, title=f"{sweep.name}: the world {world!r}", x="epochs", y="entropy index (nats)")


def rare_world(found: dict[tuple[str, str], Interval], chances: dict[str, float]) -> str:
    return min(chances, key=lambda world: (chances[world], found["mean", world].centre))


def main(arguments: list[str]) -> None:
    sweep = Path(arguments[0])
    indices, chances = last_indices(sweep)
    found = {key: mean_interval([*values.values()]) for key, values in indices.items()}
    lines: list[tuple[Any, ...]] = []
    for (variant, world), interval in found.items():
        print(f"{variant:8} {world:16} p = {chances[world]:<5g} {interval} nats, {interval.n} seeds")
        lines.append((sweep.name, variant, world, chances[world], interval.centre, interval.half_width, interval.n))
    rare = rare_world(found, chances)
    tail, mean = found["tail", rare], found["mean", rare]
    apart = tail.low is not None and mean.high is not None and tail.low > mean.high
    print(f"{rare}: {tail.centre - mean.centre:+.3f} nats; the intervals {'are apart' if apart else 'overlap'}")
    both = [(indices["tail", rare][seed], value) for seed, value in indices["mean", rare].items()]
    gains = mean_interval([tail - mean for tail, mean in both])
    print(f"{rare}, seed by seed: {gains} nats, of {', '.join(f'{tail - mean:+.2f}' for tail, mean in both)}")
    if "--csv" in arguments:
        head = ("study", "variant", "world", "probability", "index", "half_width", "seeds")
        write_bytes(Path(arguments[arguments.index("--csv") + 1]), csv_text(head, lines).encode())
    if "--picture" in arguments:
        write_bytes(Path(arguments[arguments.index("--picture") + 1]), picture(sweep, rare))


if __name__ == "__main__":
    main(sys.argv[1:])

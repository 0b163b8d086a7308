"""What a policy covers of each world, what that is of all together, and worlds.csv, where it is kept."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mepol.algorithm.tail import tail_weights
from mepol.evaluation.assess import Assessment
from mepol.exploration.worlds.config import WorldsConfig
from mepol.runs.directory import RunDirectory
from mepol.runs.tables import Table
from mepol.runs.visits import visits_text


@dataclass(frozen=True, slots=True)
class WorldRow:
    """One policy in one world. Entropies in nats; None is an empty cell (docs/reference/metrics.md)."""

    epoch: int
    world: str
    probability: float
    index: float
    discrete_entropy: float | None = None
    pooled_entropy: float | None = None
    cells: int | None = None
    coverage: float | None = None


TABLE = Table("worlds.csv", WorldRow, most=1_000_000)


def gathered(found: dict[str, Assessment], worlds: WorldsConfig) -> Assessment:
    """What is measured of a class: the CVaR over its worlds of each entropy, and the visits of all together."""
    each = [one.evaluation for one in found.values()]
    if len(each) == 1:
        return dataclasses.replace(next(iter(found.values())), worlds=found)

    def tail(name: str) -> Any:
        values = [getattr(evaluation, name) for evaluation in each]
        if None in values:
            return None
        return float(tail_weights(values, worlds.probabilities, worlds.risk) @ np.array(values))

    maps = [evaluation.visits for evaluation in each if evaluation.visits is not None]
    together = np.sum(maps, axis=0) if maps else None
    names = ("index", "discrete_entropy", "pooled_entropy", "coverage")
    whole = dataclasses.replace(
        each[0],
        particles=sum(evaluation.particles for evaluation in each),
        cells=None if together is None else int(np.count_nonzero(together)),
        visits=together,
        **{name: tail(name) for name in names},
    )
    return Assessment(whole, worlds=found)


def keep_worlds(run: RunDirectory[Any, Any], turn: int, found: dict[str, Assessment]) -> None:
    """Add what the policy of `turn` covers of each world: lines of worlds.csv, and heatmaps/world-NAME-epoch-N.csv."""
    if not found:
        return
    rows = []
    for (name, one), chance in zip(found.items(), run.config.worlds.probabilities, strict=True):
        own = {key: getattr(one.evaluation, key) for key in TABLE.columns[3:]}
        rows.append(WorldRow(turn, name, chance, **own))
        if one.evaluation.visits is not None:
            run.door.write_text(f"heatmaps/{map_path(run, name, turn).name}", visits_text(one.evaluation.visits))
    if not (run.path / TABLE.name).is_file():
        run.door.write_text(TABLE.name, TABLE.head)
    run.door.append(TABLE.name, "".join(map(TABLE.line, rows)))
    run.door.sync(TABLE.name)  # no checkpoint is ahead of it


def rewind_worlds(run: RunDirectory[Any, Any], turn: int) -> None:
    """Forget what was measured of the policies of `turn` and after; the rest of the run's rewinding is its own."""
    if not (run.path / TABLE.name).is_file():
        return
    rows = world_rows(run)
    for row in rows:
        path = map_path(run, row.world, row.epoch)
        if row.epoch >= turn and path.exists():
            run.door.remove(f"heatmaps/{path.name}")
    run.door.write_text(TABLE.name, TABLE.head + "".join(TABLE.line(row) for row in rows if row.epoch < turn))


def world_rows(run: RunDirectory[Any, Any]) -> list[WorldRow]:
    """worlds.csv, read back; only names that the run's settings have, which are safe as parts of a file's name."""
    path = run.path / TABLE.name
    known = {world["name"] for world in run.config.worlds.envs}
    return [row for row in TABLE.read(path) if row.world in known] if path.is_file() else []


def map_path(run: RunDirectory[Any, Any], world: str, turn: int) -> Path:
    """Where the visits of the policy of `turn` in a world lie."""
    whole = run.visits_path(turn)
    return whole.with_name(f"world-{world}-{whole.name}")

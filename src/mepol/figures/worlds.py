"""Where the last measured policy of a run has been in each of its worlds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mepol.exploration.worlds.measures import map_path, world_rows
from mepol.figures.coverage import draw_maps
from mepol.runs.directory import RunDirectory
from mepol.runs.domain import load_domain
from mepol.runs.visits import read_visits

ACROSS = 5  # maps in a row


def draw_worlds(run: RunDirectory[Any, Any]) -> list[Path]:
    """figures/worlds.png: a map for each world on one colour scale; nothing of a run with one environment."""
    rows = world_rows(run)
    last = [row for row in rows if row.epoch == rows[-1].epoch and map_path(run, row.world, row.epoch).is_file()]
    if not last or (grid := load_domain(run).grid) is None:
        return []
    maps = [
        (f"{row.world}, p = {row.probability:g}, epoch {row.epoch}", read_visits(map_path(run, row.world, row.epoch)))
        for row in last
    ]
    return [run.door.write("figures/worlds.png", draw_maps(maps, grid, columns=ACROSS))]

"""The classes of environments that come with the package, as data beside this file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mepol.exploration.worlds.files import read_worlds
from mepol.settings import Rows, rows

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Shipped:
    """One of them."""

    file: str
    base: str
    """The preset whose settings hold where it says nothing."""
    summary: str

    @cached_property
    def rows(self) -> Rows:
        """What it sets, with sources."""
        return (
            *rows("ours: a slope presses against walls, where states coincide", eps=1e-6),
            *rows("the worlds differ in it", ceiling=None),
            *rows("alpha-MEPOL (2022), appendix and release; walls are ours", **read_worlds(DATA / self.file)),
        )


SHIPPED = {
    "gridworld-slope": Shipped(
        "gridworld-slope.toml",
        "gridworld",
        "the four rooms, whose start slopes away from it four times of five, else back: two worlds",
    ),
    "multigrid": Shipped(
        "multigrid.toml", "gridworld", "ten planes with different walls and slopes, one of which is adverse"
    ),
    "ant-mazes": Shipped(
        "ant-mazes.toml", "ant-maze", "the ant in a maze or, one time of five, in its mirror image: two worlds"
    ),
}

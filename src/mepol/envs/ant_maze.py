"""AntMaze: the ant of `mepol/Ant-v0` in a walled maze.

    #######
    #     #
    ### # #
    #  S# #
    # ### #
    #     #
    #######

The state, its 29 names, the 8 actions and the start noise are those of `mepol.envs.ant`; x and y are measured from
the middle of the cell S, where the ant starts. Each character of `MAP` is a square of 2.5 by 2.5 metres (`CELL`), seen
from above with x to the right and y upwards; the ant is about 1.7 m across. Two ways lead out of the start: up to
the upper corridor, which has a dead end on its left, and left to the lower one. They meet on the right side, so
that each of the 18 free cells is at most 8 moves (20 m) from the start.

The walls are drawn 1 m high, but go on unseen up to 10 m: an ant that learns to jump must not leave. The paper shows
its maze only as a picture; this geometry is ours.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from mepol.envs.ant import FEATURE_NAMES, FRAME_SKIP, MODEL, start_state
from mepol.envs.batched import SingleEnv
from mepol.envs.physics import MujocoVectorEnv, add_box, load_spec
from mepol.envs.rendering import View

MAP = (
    "#######",
    "#     #",
    "### # #",
    "#  S# #",
    "# ### #",
    "#     #",
    "#######",
)
CELL = 2.5
DRAWN_HEIGHT, REAL_HEIGHT = 1.0, 10.0

FREE_AREA = sum(cell != "#" for row in MAP for cell in row) * CELL**2
"""Area between the walls: 112.5 square metres."""
ENTROPY_CEILING = math.log(FREE_AREA)
"""Differential entropy of x-y, were it uniform between the walls: 4.723 nats. The torso's own size keeps it below."""


class AntMazeVectorEnv(MujocoVectorEnv):
    """M ants, each alone in its maze."""

    view = View(distance=21.0, elevation=-75.0)

    def __init__(self, num_envs: int = 1, render_mode: str | None = None, threads: int | None = None) -> None:
        spec = load_spec("gymnasium", MODEL)
        for n, (centre, half) in enumerate(walls()):
            for seen, height in ((True, DRAWN_HEIGHT), (False, REAL_HEIGHT)):
                name = f"wall_{n}_{'seen' if seen else 'felt'}"
                add_box(spec, name, (*centre, height / 2), (*half, height / 2), seen=seen)
        super().__init__(
            spec.compile(), FEATURE_NAMES, FRAME_SKIP, num_envs=num_envs, render_mode=render_mode, threads=threads
        )

    def start(self, i: int, rng: np.random.Generator) -> None:
        """Near the rest pose in the middle of S, hardly moving."""
        self.place(i, *start_state(self.model.qpos0, rng))


def cell_centre(row: int, column: float) -> tuple[float, float]:
    """(x, y) of the middle of a cell of `MAP`; that of S is (0, 0)."""
    start_row = next(r for r, text in enumerate(MAP) if "S" in text)
    return (column - MAP[start_row].index("S")) * CELL, (start_row - row) * CELL


def walls() -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """Centre (x, y) and half-size of each wall: one box for every run of # in a row, so that there are few."""
    for row, text in enumerate(MAP):
        column = 0
        for is_wall, run in itertools.groupby(text, lambda cell: cell == "#"):
            length = len(list(run))
            if is_wall:
                yield cell_centre(row, column + (length - 1) / 2), (length * CELL / 2, CELL / 2)
            column += length


def ant_maze(render_mode: str | None = None) -> SingleEnv:
    """`mepol/AntMaze-v0` as a single environment."""
    return SingleEnv(AntMazeVectorEnv(1, render_mode))

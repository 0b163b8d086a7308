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
its maze only as a picture; this geometry is ours. A second maze, `maze="mirrored"`, is the same with left and right
exchanged: what leads out of one is a dead end in the other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from mepol.envs.ant import FEATURE_NAMES, FRAME_SKIP, MODEL, start_state
from mepol.envs.batched import Array, SingleEnv
from mepol.envs.physics import MujocoVectorEnv, add_box, load_spec
from mepol.envs.rendering import View
from mepol.errors import EnvironmentFault

MAP = (
    "#######",
    "#     #",
    "### # #",
    "#  S# #",
    "# ### #",
    "#     #",
    "#######",
)
MAZES = {"upright": MAP, "mirrored": tuple(row[::-1] for row in MAP)}
"""Maps by name; S is in the middle of each."""
CELL = 2.5
TORSO = 0.25  # radius of the ant's torso, metres
DRAWN_HEIGHT, REAL_HEIGHT = 1.0, 10.0

FREE_AREA = sum(cell != "#" for row in MAP for cell in row) * CELL**2
"""Area between the walls: 112.5 square metres."""
ENTROPY_CEILING = math.log(FREE_AREA)
"""Differential entropy of x-y, were it uniform between the walls: 4.723 nats. The torso's own size keeps it below."""


class AntMazeVectorEnv(MujocoVectorEnv):
    """M ants, each alone in its maze."""

    view = View(distance=21.0, elevation=-75.0)

    def __init__(
        self,
        num_envs: int = 1,
        render_mode: str | None = None,
        threads: int | None = None,
        maze: str = "upright",
    ) -> None:
        if maze not in MAZES:
            raise EnvironmentFault(f"maze = {maze!r} is not possible: it must be one of {', '.join(MAZES)}")
        self._map = MAZES[maze]
        spec = load_spec("gymnasium", MODEL)
        for n, (centre, half) in enumerate(walls(self._map)):
            for seen, height in ((True, DRAWN_HEIGHT), (False, REAL_HEIGHT)):
                name = f"wall_{n}_{'seen' if seen else 'felt'}"
                add_box(spec, name, (*centre, height / 2), (*half, height / 2), seen=seen)
        super().__init__(
            spec.compile(), FEATURE_NAMES, FRAME_SKIP, num_envs=num_envs, render_mode=render_mode, threads=threads
        )

    def start(self, i: int, rng: np.random.Generator) -> None:
        """Near the rest pose in the middle of S, hardly moving."""
        self.place(i, *start_state(self.model.qpos0, rng))

    def reachable(self, axes: tuple[int, int]) -> Array | None:
        """(P, 2) free places of its maze, of x and y alone."""
        return free_places(axes, self._map)


Map = tuple[str, ...]


def cell_centre(row: int, column: float, rows: Map = MAP) -> tuple[float, float]:
    """(x, y) of the middle of a cell of a map; that of S is (0, 0)."""
    start_row = next(r for r, text in enumerate(rows) if "S" in text)
    return (column - rows[start_row].index("S")) * CELL, (start_row - row) * CELL


def walls(rows: Map = MAP) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """Centre (x, y) and half-size of each wall: one box for every run of # in a row, so that there are few."""
    for row, text in enumerate(rows):
        column = 0
        for is_wall, run in itertools.groupby(text, lambda cell: cell == "#"):
            length = len(list(run))
            if is_wall:
                yield cell_centre(row, column + (length - 1) / 2, rows), (length * CELL / 2, CELL / 2)
            column += length


def free_places(axes: tuple[int, int], rows: Map = MAP) -> Array | None:
    """(P, 2) of x and y: points 0.05 apart that are a torso's radius away from every wall; None for other axes.

    A bound from above: nothing keeps the torso from being there, but whether the legs let it come so close to a wall is
    not known.
    """
    if set(axes) != {0, 1}:
        return None
    half = CELL * len(rows) / 2
    along = np.arange(-half, half, 0.05) + 0.025
    points = np.stack(np.meshgrid(along, along, indexing="ij"), axis=-1).reshape(-1, 2)
    near = np.zeros(len(points), dtype=bool)
    for centre, size in walls(rows):
        gap = np.maximum(np.abs(points - np.array(centre)) - np.array(size), 0.0)
        near |= np.hypot(gap[:, 0], gap[:, 1]) < TORSO
    return points[~near][:, list(axes)]


def ant_maze(render_mode: str | None = None, maze: str = "upright") -> SingleEnv:
    """`mepol/AntMaze-v0` as a single environment."""
    return SingleEnv(AntMazeVectorEnv(1, render_mode, maze=maze))

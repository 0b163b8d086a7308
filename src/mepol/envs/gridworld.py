"""GridWorld: four rooms joined by four hallways, in continuous space.

    coordinate  name  range
    0           x     [-6, 6]
    1           y     [-6, 6]

The agent starts anywhere in the lower left corner [-6, -4]^2 and chooses how far to move along x and y, at most
0.2 each. A move that would end in a wall, or on or beyond the border, is cancelled as a whole; only the end
point is tested. Rooms are 4.75 wide, doorways 1.0 wide and 2.5 long: the geometry of the authors' release (the
paper's text says 5 by 5; docs/method/decisions.md, 15).

Other worlds of the same size have other walls (`layout`), a drift in every move (`slope`, whose `steepness` is a share
of the largest move, `sloping` everywhere or on the left, where the start is), or other moves (`max_move`); terrain.py
has them.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from mepol.algorithm.symmetry import Mirror, Symmetry
from mepol.envs.batched import Array, BatchedEnv, Frame, SingleEnv
from mepol.envs.terrain import STEEP, drift_of, sloping_up_to, walls_of
from mepol.errors import EnvironmentFault

HALF_WIDTH = 6.0
MAX_MOVE = 0.2
START_LOW, START_HIGH = -6.0, -4.0

WALLS = walls_of("rooms")
"""(W, 4) solid boxes (x0, y0, x1, y1) of the four rooms, borders included."""

FREE_AREA = (2 * HALF_WIDTH) ** 2 - (2.5 * 5.0 + 2 * 1.25 * 2.5) - 4 * 2.5 * 2.5
"""Area that the agent can reach: 100.25."""
ENTROPY_CEILING = math.log(FREE_AREA)
"""Differential entropy of the uniform distribution over it: 4.608 nats."""

DIAGONAL = Symmetry(*[Mirror((1, 0), (1, 1))] * 2)
"""x and y exchanged: rooms, hallways and start are as before."""


def blocked(position: Array, walls: Array = WALLS) -> NDArray[np.bool_]:
    """(M, 2) points -> (M,) whether each lies in one of `walls` (W, 4), or on or beyond the border."""
    low, high = walls[:, :2], walls[:, 2:]
    p = position[:, None, :]
    in_wall = np.any(np.all((p >= low) & (p <= high), axis=2), axis=1)
    return np.asarray(in_wall | np.any(np.abs(position) >= HALF_WIDTH, axis=1))


@functools.cache
def free_points(spacing: float = 0.02, layout: str = "rooms") -> Array:
    """(P, 2) the points of a square lattice that lie in no wall of the layout."""
    line = np.arange(-HALF_WIDTH + spacing / 2, HALF_WIDTH, spacing)
    lattice = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    return np.asarray(lattice[~blocked(lattice, walls_of(layout))])


class GridWorldVectorEnv(BatchedEnv):
    """M agents in the four rooms, or in another layout, on a plane that may slope; they do not see each other."""

    feature_names = ("x", "y")

    def __init__(
        self,
        num_envs: int = 1,
        render_mode: str | None = None,
        layout: str = "rooms",
        slope: str = "flat",
        steepness: float = STEEP,
        sloping: str = "everywhere",
        max_move: float = MAX_MOVE,
    ) -> None:
        if not 0 < max_move < HALF_WIDTH:
            raise EnvironmentFault(f"max_move = {max_move:g} is not possible: above 0, below {HALF_WIDTH:g}")
        self._layout, self._walls = layout, walls_of(layout)
        drift = drift_of(slope, steepness, max_move)
        self._drift = drift if drift.any() else None
        self._slopes_to = sloping_up_to(sloping)
        self.symmetries = (DIAGONAL,) if layout == "rooms" and self._drift is None else ()
        space = Box(-HALF_WIDTH, HALF_WIDTH, (2,), np.float64)
        super().__init__(num_envs, space, Box(-max_move, max_move, (2,), np.float32), render_mode)
        self._position = np.zeros((num_envs, 2))

    def start(self, i: int, rng: np.random.Generator) -> None:
        """Anywhere in the lower left corner."""
        self._position[i] = rng.uniform(START_LOW, START_HIGH, 2)

    def advance(self, actions: Array) -> None:
        """Move, downhill a little further, unless the end point is blocked."""
        target = self._position + actions
        if self._drift is not None:
            target += np.where(self._position[:, :1] <= self._slopes_to, self._drift, 0.0)
        self._position = np.where(blocked(target, self._walls)[:, None], self._position, target)

    def observe(self) -> Array:
        """(M, 2) positions."""
        return self._position.copy()

    def reachable(self, axes: tuple[int, int]) -> Array:
        """(P, 2) free points 0.02 apart: every one can be reached, through the hallways."""
        return free_points(layout=self._layout)[:, list(axes)]

    def picture(self, i: int) -> Frame:
        """(480, 480, 3) the map from above."""
        return draw(self._position[i : i + 1], walls=self._walls)


def draw(positions: Array, pixels: int = 480, walls: Array = WALLS) -> Frame:
    """(P, 2) positions -> (pixels, pixels, 3): walls dark, start area yellow, a red dot at each position."""
    image = Image.new("RGB", (pixels, pixels), "white")
    pen = ImageDraw.Draw(image)
    unit = pixels / (2 * HALF_WIDTH)

    def corner(x: float, y: float) -> tuple[float, float]:
        return (x + HALF_WIDTH) * unit, (HALF_WIDTH - y) * unit

    pen.rectangle([*corner(START_LOW, START_HIGH), *corner(START_HIGH, START_LOW)], fill=(255, 236, 139))
    for x0, y0, x1, y1 in walls:
        pen.rectangle([*corner(x0, y1), *corner(x1, y0)], fill=(52, 58, 64))
    for position in positions:
        x, y = corner(*position)
        pen.ellipse([x - 6, y - 6, x + 6, y + 6], fill=(220, 50, 47))
    return np.asarray(image)


def gridworld(render_mode: str | None = None, **world: Any) -> SingleEnv:
    """`mepol/GridWorld-v0` as a single environment; world: the arguments of `GridWorldVectorEnv`, by name."""
    return SingleEnv(GridWorldVectorEnv(1, render_mode, **world))

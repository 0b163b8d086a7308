"""GridWorld200: one hundred four-room planes side by side, moved in by one agent at once; 200-D states and actions.

    coordinate  name       range
    0, 1        x1, y1     [-6, 6]     position in plane 1
    2, 3        x2, y2     [-6, 6]     position in plane 2
    ...
    198, 199    x100, y100 [-6, 6]     position in plane 100

Each plane has the walls, the start corner and the largest move (0.2 an axis) of `mepol.envs.gridworld`. A move that
would end in a wall of a plane is cancelled in that plane alone. So the reachable set is the product of a hundred
copies of the four rooms, of volume 100.25^100, and its entropy ceiling is a hundred times that of one plane. The
paper says no more than "(200D, 200D) GridWorld"; this geometry is ours. It extends the 2-D one without
inventing walls whose volume nobody could compute.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box

from mepol.envs import gridworld
from mepol.envs.batched import Array, BatchedEnv, Frame, SingleEnv

PLANES = 100
ENTROPY_CEILING = PLANES * gridworld.ENTROPY_CEILING
"""Differential entropy of the uniform distribution over the reachable set: 460.77 nats."""


class GridWorld200VectorEnv(BatchedEnv):
    """M agents, each in a hundred planes at once."""

    feature_names = tuple(f"{axis}{plane}" for plane in range(1, PLANES + 1) for axis in "xy")

    def __init__(self, num_envs: int = 1, render_mode: str | None = None) -> None:
        size, move = gridworld.HALF_WIDTH, gridworld.MAX_MOVE
        space = Box(-size, size, (2 * PLANES,), np.float64)
        super().__init__(num_envs, space, Box(-move, move, (2 * PLANES,), np.float32), render_mode)
        self._position = np.zeros((num_envs, PLANES, 2))

    def start(self, i: int, rng: np.random.Generator) -> None:
        """Anywhere in the lower left corner of each plane."""
        self._position[i] = rng.uniform(gridworld.START_LOW, gridworld.START_HIGH, (PLANES, 2))

    def advance(self, actions: Array) -> None:
        """Move in every plane where the end point is free."""
        target = self._position + actions.reshape(self._position.shape)
        blocked = gridworld.blocked(target.reshape(-1, 2)).reshape(self.num_envs, PLANES, 1)
        self._position = np.where(blocked, self._position, target)

    def observe(self) -> Array:
        """(M, 200) positions, plane by plane."""
        return self._position.reshape(self.num_envs, -1).copy()

    def picture(self, i: int) -> Frame:
        """The map from above with one dot a plane: a hundred positions laid over each other."""
        return gridworld.draw(self._position[i])


def gridworld_200d(render_mode: str | None = None) -> SingleEnv:
    """`mepol/GridWorld200-v0` as a single environment."""
    return SingleEnv(GridWorld200VectorEnv(1, render_mode))

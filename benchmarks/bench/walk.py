"""A random walk in a box of any number of dimensions: an environment that costs next to nothing by itself."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box

from mepol.envs.batched import Array, BatchedEnv, Frame

HALF_WIDTH, MAX_MOVE = 6.0, 0.2  # of GridWorld, which this is without its walls


class Walk(BatchedEnv):
    """M walkers in [-6, 6]^D; an action is a move of at most 0.2 an axis, cut off at the border."""

    def __init__(self, num_envs: int, dim: int) -> None:
        self.feature_names = tuple(f"x{i}" for i in range(dim))
        space = Box(-HALF_WIDTH, HALF_WIDTH, (dim,), np.float64)
        super().__init__(num_envs, space, Box(-MAX_MOVE, MAX_MOVE, (dim,), np.float32))
        self._position = np.zeros((num_envs, dim))

    def start(self, i: int, rng: np.random.Generator) -> None:
        """Anywhere in the box."""
        self._position[i] = rng.uniform(-HALF_WIDTH, HALF_WIDTH, self._position.shape[1])

    def advance(self, actions: Array) -> None:
        """Move, and stop at the border."""
        self._position = np.clip(self._position + actions, -HALF_WIDTH, HALF_WIDTH)

    def observe(self) -> Array:
        """(M, D) positions."""
        return self._position.copy()

    def picture(self, i: int) -> Frame:
        """Nothing to see: one black pixel."""
        return np.zeros((1, 1, 3), dtype=np.uint8)

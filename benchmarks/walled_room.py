"""A home-made environment as a user might write one: a point in a room with a wall, and a door in it."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box


class WalledRoom(gymnasium.Env):
    """Twelve lines of one's own; nothing in it knows of mepol."""

    observation_space = Box(0.0, 10.0, (2,), np.float64)
    action_space = Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        """Start in a corner."""
        super().reset(seed=seed)
        self.at = self.np_random.uniform(0.5, 1.0, 2)
        return self.at.copy(), {}

    def step(self, action):
        """Move, unless the wall at x = 5 is in the way; its door is where y is above 8."""
        to = np.clip(self.at + 0.5 * np.asarray(action), 0.0, 10.0)
        if (to[0] - 5.0) * (self.at[0] - 5.0) > 0 or to[1] > 8.0:
            self.at = to
        return self.at.copy(), 0.0, False, False, {}

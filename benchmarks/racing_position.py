"""CarRacing that also tells where its car is: pictures for the policy, positions for the measure of what it covered.

mepol explore CarRacing-v3 --encoder random --wrapper benchmarks/racing_position.py:WithPosition
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict

REACH = 300.0  # the track lies within this of the middle, in the environment's metres


class WithPosition(gymnasium.ObservationWrapper):  # type: ignore[type-arg]
    """A Dict of the picture and of the car's (x, y), in metres."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        place = Box(-REACH, REACH, (2,), np.float64)
        self.observation_space = Dict({"picture": env.observation_space, "place": place})

    def observation(self, observation: Any) -> dict[str, Any]:
        """The picture, and where the car is."""
        at = self.env.unwrapped.car.hull.position  # type: ignore[attr-defined]
        return {"picture": observation, "place": np.array([at[0], at[1]], dtype=np.float64)}

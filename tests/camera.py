"""A small environment that is seen through a camera."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete


class Camera(gymnasium.Env[Any, Any]):
    """A bright pixel that moves by one of four choices.

    kind: `picture`, `gray` for one without channels, or `dict` for one beside the place that it shows.
    """

    action_space = Discrete(4)

    def __init__(self, kind: str = "picture") -> None:
        self.kind, self.shape = kind, (9, 9) if kind == "gray" else (9, 9, 3)
        picture = Box(0, 255, self.shape, np.uint8)
        place = Box(0.0, 8.0, (2,), np.float64)
        self.observation_space = Dict({"camera": picture, "place": place}) if kind == "dict" else picture
        self.at = np.zeros(2, int)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = self.np_random.integers(0, 9, 2)
        return self.look(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at = np.clip(self.at + [(0, 1), (1, 0), (0, -1), (-1, 0)][action], 0, 8)
        return self.look(), 0.0, False, False, {}

    def look(self) -> Any:
        picture = np.zeros(self.shape, np.uint8)
        picture[tuple(self.at)] = 200
        return {"camera": picture, "place": self.at.astype(float)} if self.kind == "dict" else picture

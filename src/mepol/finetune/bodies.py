"""Ant and Humanoid that can start from a stored pool of states."""

from __future__ import annotations

import numpy as np

from mepol.envs.ant import AntVectorEnv
from mepol.envs.humanoid import HumanoidVectorEnv
from mepol.finetune import pools


class Ant(AntVectorEnv):
    """Ants; with the name of a pool, each starts in one of its states."""

    def __init__(self, pool: str, num_envs: int, render_mode: str | None, threads: int | None) -> None:
        super().__init__(num_envs, render_mode, threads)
        self.starts = pools.load(pool) if pool else None

    def start(self, i: int, rng: np.random.Generator) -> None:
        """From the pool, or near the rest pose."""
        if self.starts is None:
            super().start(i, rng)
        else:
            pools.place_from(self.starts, self, i, rng)


class Humanoid(HumanoidVectorEnv):
    """Humanoids; with the name of a pool, each starts in one of its states."""

    def __init__(self, pool: str, num_envs: int, render_mode: str | None, threads: int | None) -> None:
        super().__init__(num_envs, render_mode, threads)
        self.starts = pools.load(pool) if pool else None

    def start(self, i: int, rng: np.random.Generator) -> None:
        """From the pool, or near the standing pose."""
        if self.starts is None:
            super().start(i, rng)
        else:
            pools.place_from(self.starts, self, i, rng)

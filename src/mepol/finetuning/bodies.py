"""Ant and Humanoid that can start from a stored pool of states."""

from __future__ import annotations

import numpy as np

from mepol.envs.ant import AntVectorEnv
from mepol.envs.batched import Array
from mepol.envs.humanoid import HumanoidVectorEnv
from mepol.envs.physics import MujocoVectorEnv
from mepol.finetuning import pools


class _FromPool(MujocoVectorEnv):
    """Bodies that start in a state of the pool `starts`, where there is one."""

    starts: Array | None = None

    def start(self, i: int, rng: np.random.Generator) -> None:
        """From the pool, or where such a body starts by itself."""
        if self.starts is None:
            super().start(i, rng)  # type: ignore[safe-super]  # of the body that this is mixed into
        else:
            pools.place_from(self.starts, self, i, rng)


class Ant(_FromPool, AntVectorEnv):
    """Ants."""


class Humanoid(_FromPool, HumanoidVectorEnv):
    """Humanoids."""


def make_body(
    kind: type[Ant] | type[Humanoid],
    pool: str,
    num_envs: int,
    render_mode: str | None = None,
    threads: int | None = None,
) -> Ant | Humanoid:
    """`num_envs` bodies that start in states of the pool of that name, or as ever where the name is empty."""
    env = kind(num_envs, render_mode, threads)
    env.starts = pools.load(pool) if pool else None
    return env

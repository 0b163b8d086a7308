"""Which sub-environments of a batch are sampled here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gymnasium.vector import VectorEnv


@dataclass(frozen=True)
class Rows:
    """Sub-environments start .. stop of a batch of `of`: all of them, or a shard that is sampled elsewhere."""

    start: int
    stop: int
    of: int

    @staticmethod
    def whole(env: VectorEnv[Any, Any, Any]) -> Rows:
        """All rows of `env`."""
        return Rows(0, env.num_envs, env.num_envs)

    @staticmethod
    def shards(of: int, count: int) -> list[Rows]:
        """A batch of `of` rows in `count` shards of consecutive ones, fewer where there are fewer rows."""
        count = min(count, of)
        return [Rows(of * i // count, of * (i + 1) // count, of) for i in range(count)]

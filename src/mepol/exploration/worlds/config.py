"""Settings of a class of environments: its worlds with their probabilities, and which share of them is lifted."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from mepol.errors import ConfigError
from mepol.settings import above, at_least, check, require, require_plain

MAX_WORLDS = 1000
KEYS = ("name", "env", "env_kwargs", "probability")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")  # it is part of file names


@dataclass(frozen=True)
class WorldsConfig:
    """Several environments, of which each mini-batch of trajectories is from one, drawn by its probability."""

    envs: tyro.conf.Suppress[tyro.conf.Fixed[tuple[dict[str, Any], ...]]] = ()  # --envs FILE.toml, read before the rest
    """The class: tables of name, env, env_kwargs and probability; none for one environment alone."""
    risk: Annotated[float, above(0, 1)] = 1.0
    """alpha: the mean entropy of the lowest share alpha of the mini-batches is climbed (CVaR); 1 is their mean."""
    world_trajectories: Annotated[int, at_least(1)] = 5
    """Trajectories of a mini-batch: they share an environment, and neighbours are sought among them alone."""

    def __post_init__(self) -> None:
        check(self)
        several = "1 with one environment alone: give --envs for several"
        require(bool(self.envs) or self.risk == 1, "risk", self.risk, several)
        require(len(self.envs) <= MAX_WORLDS, "envs", f"{len(self.envs)} worlds", f"at most {MAX_WORLDS} worlds")
        for world in self.envs:
            _check_world(world)
        names = [world["name"] for world in self.envs]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ConfigError(f"two worlds are called {twice[0]!r}: give each a name of its own")
        total = math.fsum(world["probability"] for world in self.envs)
        if self.envs and not math.isclose(total, 1.0, abs_tol=1e-9):
            raise ConfigError(
                f"the probabilities of the {len(self.envs)} worlds sum to {total:.6g}: they must sum to 1"
            )

    def size(self, trajectories: int) -> int:
        """Trajectories of a mini-batch, of a batch of so many.

        One environment at risk 1 leaves nothing to choose between mini-batches: the batch is one, as the paper has it.
        """
        return trajectories if len(self.envs) <= 1 and self.risk == 1 else self.world_trajectories

    @property
    def probabilities(self) -> list[float]:
        """Of the worlds, in their order."""
        return [world["probability"] for world in self.envs]


def named(worlds: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """Tables of worlds as a user writes them, with what may be left out: a name (w1, w2, ...) and env_kwargs."""
    found = []
    for number, world in enumerate(worlds, start=1):
        if not isinstance(world, dict):
            raise ConfigError(f"world {number} is not a table of {', '.join(KEYS)}")
        found.append({"name": f"w{number}", "env_kwargs": {}, **world})
    return tuple(found)


def _check_world(world: dict[str, Any]) -> None:
    if unknown := sorted(set(world) - set(KEYS)):
        raise ConfigError(f"a world has no entry {unknown[0]!r}; it has {', '.join(KEYS)}")
    if missing := [key for key in KEYS if key not in world]:
        raise ConfigError(f"a world lacks {missing[0]!r}; it has {', '.join(KEYS)}")
    name, chance = world["name"], world["probability"]
    right = isinstance(name, str) and NAME.fullmatch(name) is not None
    require(right, "a world's name", name, "at most 60 letters, digits, '.', '_' and '-', a letter or digit first")
    require(isinstance(world["env"], str) and bool(world["env"]), f"env of {name}", world["env"], "the name of one")
    require(isinstance(world["env_kwargs"], dict), f"env_kwargs of {name}", world["env_kwargs"], "a table")
    require_plain(f"env_kwargs of {name}", world["env_kwargs"])
    number = isinstance(chance, int | float) and not isinstance(chance, bool)
    require(number and 0 < chance <= 1, f"probability of {name}", chance, "above 0 and at most 1")

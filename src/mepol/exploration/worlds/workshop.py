"""A workshop of several worlds: batches that are drawn from all of them, and a measure of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv

from mepol.algorithm.batch import Batch
from mepol.envs.contract import check_same_spaces
from mepol.envs.domain import Domain
from mepol.envs.reachable import reachable_cells
from mepol.errors import EnvironmentFault
from mepol.evaluation.assess import Assessment, Protocol
from mepol.exploration.config import ExploreConfig
from mepol.exploration.workshop import Given, Workshop, domain_of, environments_of, settled, survey_of
from mepol.exploration.worlds.config import WorldsConfig
from mepol.exploration.worlds.measures import gathered
from mepol.sampling.collect import Actor
from mepol.settings import GIVEN


@dataclass(frozen=True)
class Worlds(Workshop):
    """The workshop of a class: where one environment is asked for, it is that of the first world."""

    rooms: dict[str, Workshop] = dataclasses.field(default_factory=dict)
    """A workshop of each world by its name."""

    def collect(self, actor: Actor, num_envs: int, horizon: int, seed: np.random.SeedSequence) -> Batch:
        """Trajectories of `actor`, a mini-batch after the other, each from one world.

        The seed draws how many mini-batches each world gives; they lie world after world. Environments are made in
        batches of 1, 2, 4, ... mini-batches, so that whatever the draw, few of them are made and all are used again.
        """
        rooms = list(self.rooms.values())
        if len(rooms) == 1:
            return rooms[0].collect(actor, num_envs, horizon, seed)
        size, root = self.config.worlds.size(num_envs), _again(seed)
        chances = np.array(self.config.worlds.probabilities)
        drawn = np.random.default_rng(root.spawn(1)[0]).multinomial(num_envs // size, chances / chances.sum())
        parts = [(room, size * some) for room, count in zip(rooms, drawn, strict=True) for some in powers(int(count))]
        seeds = root.spawn(len(parts))
        return Batch.joined(
            [room.collect(actor, rows, horizon, own) for (room, rows), own in zip(parts, seeds, strict=True)]
        )

    def assess(self, actor: Actor, seed: np.random.SeedSequence, protocol: Protocol | None = None) -> Assessment:
        """Measure `actor` in every world with the same seed, each on as many trajectories as the protocol has."""
        found = {name: room.assess(actor, _again(seed), protocol) for name, room in self.rooms.items()}
        return gathered(found, self.config.worlds)


def powers(count: int) -> list[int]:
    """The powers of two that sum to `count`, the largest first."""
    return [1 << bit for bit in reversed(range(count.bit_length())) if count >> bit & 1]


def _again(seed: np.random.SeedSequence) -> np.random.SeedSequence:
    """The same seed as if nothing had been spawned of it."""
    return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)


def world_configs(config: ExploreConfig) -> dict[str, ExploreConfig]:
    """The settings of a run in each world alone, by its name."""
    return {
        world["name"]: dataclasses.replace(
            config, env=world["env"], env_kwargs=world["env_kwargs"], worlds=WorldsConfig()
        )
        for world in config.worlds.envs
    }


@contextmanager
def open_worlds(
    config: ExploreConfig, given: Given, domain: Domain | None, tell: Callable[[str], None]
) -> Iterator[Worlds]:
    """The worlds of a run, as `open_workshop` opens one: features and heatmaps are what the first world says."""
    size = config.worlds.size(config.trajectories)
    with ExitStack() as stack:
        if given.sampler:
            stack.enter_context(given.sampler)
        rooms: dict[str, Workshop] = {}
        for name, own in world_configs(config).items():
            if own.env.startswith(GIVEN):
                raise EnvironmentFault(f"world {name!r} needs the name of an environment: objects cannot be in a class")
            environments = stack.enter_context(environments_of(own))
            env = environments.of(1 if given.sampler else size)
            if domain is None:
                domain = domain_of(env, own, given, survey_of(environments.of, own, given))
                for note in domain.notes:
                    tell(note)
            config = settled(config, domain, tell)
            own = dataclasses.replace(own, ascent=config.ascent)
            _require_alike(env, domain, name, next(iter(rooms), ""))
            mask = None if domain.grid is None else reachable_cells(env, domain.grid)
            rooms[name] = Workshop(own, environments, dataclasses.replace(domain, reachable=mask), given, tell)
        assert domain is not None
        yield Worlds(config, next(iter(rooms.values())).environments, domain, given, tell, rooms=rooms)


def _require_alike(env: VectorEnv[Any, Any, Any], domain: Domain, name: str, first: str) -> None:
    """EnvironmentFault unless the world `name` has the spaces and the names of coordinates that `first` has."""
    try:
        check_same_spaces(env, domain.space, (domain.action_dim,), domain.choices)
        actions = env.single_action_space
        own = np.stack([domain.action_low, domain.action_high])
        if isinstance(actions, Box) and not np.array_equal(np.stack([actions.low, actions.high]), own):
            raise EnvironmentFault(f"the environment changed its action space to {env.single_action_space}")
    except EnvironmentFault:
        if not first:  # then it is the run that began with another
            raise
        spaces = f"{env.single_observation_space} and {env.single_action_space}"
        raise EnvironmentFault(
            f"the worlds {first!r} and {name!r} differ in their spaces: {name!r} has {spaces}, and {first!r} "
            f"{domain.space} and {domain.action_space}; one policy needs the same in all"
        ) from None

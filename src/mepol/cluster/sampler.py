"""The batches of one big run, drawn by actors on all nodes; equal to those drawn here, bit for bit."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from mepol.algorithm.batch import Batch
from mepol.cluster.connection import connected
from mepol.cluster.crew import Crew
from mepol.envs.make import Environments
from mepol.errors import ConfigError
from mepol.sampling.collect import Actor, Cut, collecting, warn_of
from mepol.sampling.rows import Rows

Shard = tuple[Batch, list[Cut]]


@dataclass(frozen=True)
class Order:
    """What every shard of a batch is told: sent to each node once per epoch, the policy in it.

    key: of the environments, which a worker keeps from batch to batch.
    """

    key: str
    environments: Environments
    actor: Actor
    horizon: int
    seed: np.random.SeedSequence


_kept: dict[str, Environments] = {}
"""In a worker: the environments of the run that it draws for."""


def draw(order: Order, rows: Rows) -> Generator[None, None, Shard]:
    """One shard, in a worker."""
    if order.key not in _kept:
        for old in _kept.values():
            old.__exit__(None, None, None)
        _kept.clear()
        _kept[order.key] = order.environments
    environments = _kept[order.key]
    env, limit = environments.of(rows.stop - rows.start), environments.time_limit
    yield
    return (yield from collecting(order.actor, env, order.horizon, rows, seed=order.seed, time_limit=limit))


def quietly(asked: tuple[Callable[[Any, slice], Any], Any], piece: slice) -> Any:
    """A search in a worker. Torch warns of arrays that it may not write to; what is shared is read, never written."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        function, shared = asked
        return function(shared, piece)


class RaySampler:
    """Draws batches by Ray actors, and searches neighbours by them (see `sampling.sampler.Sampler`).

    Within its context the actors are kept; at its end they are gone, and Ray with them where it was started for this.
    """

    def __init__(self, workers: int, address: str | None = None) -> None:
        if type(workers) is not int or workers < 1:
            raise ConfigError(f"workers = {workers!r} is not possible: it must be at least 1")
        self.size, self._address = workers, address
        self._stack, self._depth = ExitStack(), 0
        self._crew: Crew | None = None
        self._keys: dict[int, tuple[Environments, str]] = {}

    def __enter__(self) -> RaySampler:
        self._depth += 1
        if self._crew is None:
            self._crew = Crew(self._stack.enter_context(connected(self._address)), self.size)
            self._stack.callback(self._crew.dismiss)
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._crew = None
            self._keys.clear()
            self._stack.close()

    @property
    def crew(self) -> Crew:
        """Its actors, within the context."""
        if self._crew is None:
            raise ConfigError("a Ray sampler draws within its context: with mepol.cluster.ray_sampler(4) as sampler")
        return self._crew

    def collect(
        self, actor: Actor, environments: Environments, num_envs: int, horizon: int, *, seed: np.random.SeedSequence
    ) -> Batch:
        """One trajectory of `horizon` steps from each of `num_envs` sub-environments, as `collect` would draw them."""
        if id(environments) not in self._keys:  # kept beside its key, so that no other takes its place in memory
            self._keys[id(environments)] = environments, secrets.token_hex(8)
        order = Order(self._keys[id(environments)][1], environments, actor, horizon, seed)
        shards = Rows.shards(num_envs, self.size)
        found: list[Shard] = self.crew.map(draw, order, shards, environments.time_limit)
        warn_of(sorted(cut for _, cuts in found for cut in cuts))
        return Batch.joined([batch for batch, _ in found])

    def map(self, function: Callable[[Any, slice], Any], shared: Any, pieces: Sequence[slice]) -> list[Any]:
        """function(shared, piece) of each piece, in their order, by the actors."""
        return self.crew.map(quietly, (function, shared), pieces)

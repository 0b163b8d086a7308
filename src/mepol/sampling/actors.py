"""Anything that acts, as the sampler wants it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mepol.envs.contract import check_spaces
from mepol.errors import EnvironmentFault
from mepol.sampling.collect import Actor

Explorer = Actor | Callable[[NDArray[np.floating]], NDArray[np.floating]]
"""A policy, or a function of observations (M, S) that gives actions (M, A)."""


@dataclass(frozen=True)
class FunctionActor:
    """A user's function as an actor; its own randomness, if any, is its own affair."""

    function: Callable[[NDArray[np.floating]], NDArray[np.floating]]

    def act(
        self, obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[np.float32]:
        """What the function gives."""
        return np.asarray(self.function(obs), dtype=np.float32)


@dataclass(frozen=True)
class UniformActor:
    """Actions drawn uniformly from a box, whatever the state.

    low, high: (A,) float32.
    """

    low: NDArray[np.float32]
    high: NDArray[np.float32]

    @staticmethod
    def of(env: VectorEnv[Any, Any, Any]) -> UniformActor:
        """Over the action space of `env`, which must be bounded."""
        return UniformActor.over(check_spaces(env)[1])

    @staticmethod
    def over(box: Box) -> UniformActor:
        """Over `box`, which must be bounded."""
        if not box.is_bounded():
            raise EnvironmentFault(f"the action space {box} is unbounded: no action is uniform over it")
        return UniformActor(box.low.astype(np.float32), box.high.astype(np.float32))

    def act(
        self, obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[np.float32]:
        """(S,) or (M, S) observations -> (A,) or (M, A); the middle of the box when deterministic."""
        shape = (*np.shape(obs)[:-1], len(self.low))
        share = 0.5 if deterministic else rng.random(shape, dtype=np.float32)
        drawn: NDArray[np.float32] = np.broadcast_to(self.low + (self.high - self.low) * share, shape)
        return drawn.astype(np.float32)


def as_actor(explorer: Explorer) -> Actor:
    """The actor itself, or a function wrapped as one."""
    return explorer if hasattr(explorer, "act") else FunctionActor(explorer)

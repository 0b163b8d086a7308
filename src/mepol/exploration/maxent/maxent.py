"""MaxEnt (Hazan et al. 2019): a mixture that grows by one policy per round, each paid for states the mixture lacks.

    round r    states of the mixture of r policies     s ~ pi_mix        roll(mixture)
               their density                           p(s)              Density.fit
               reward of the next state                1 / (p(s') + eps) reward(density)
               a new policy, trained from scratch      pi_{r+1}          train(r, reward)
               the mixture of r + 1 policies                             extended

The first component never learns: it draws actions uniformly, as in the authors' code. Nothing is kept from one
round to the next but the mixture. Nothing here knows an environment, a file or a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mepol.algorithm.policy import GaussianPolicy
from mepol.exploration.maxent.config import MaxEntConfig
from mepol.exploration.maxent.density import Density
from mepol.exploration.maxent.mixture import mixture_weights
from mepol.sampling.actors import Mixture

Reward = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""(n, S) next states -> (n,) rewards."""


@dataclass(frozen=True)
class Round:
    """One round: the mixture it led to, and what it cost."""

    mixture: Mixture
    samples: int
    """Environment steps: those of the density and those of training."""


def maxent(
    mixture: Mixture,
    roll: Callable[[int, Mixture], NDArray[np.float64]],
    train: Callable[[int, Reward], tuple[GaussianPolicy, int]],
    config: MaxEntConfig,
    *,
    features: tuple[int, ...],
    seed: Callable[[int], np.random.SeedSequence],
) -> Iterator[Round]:
    """Extend `mixture` for ever; yields after each round.

    roll(r, mixture): (N, S) states that the mixture visits. train(r, reward): a policy and the steps it took.
    features: coordinates that the density sees. seed(r): of the density's sub-sample.
    """
    while True:
        r = len(mixture.policies)
        states = roll(r, mixture)
        density = Density.fit(states[:, list(features)], config, np.random.default_rng(seed(r)))
        policy, steps = train(r, reward_of(density, features, config))
        mixture = mixture.extended(policy, partial(mixture_weights, kind=config.mixture_weights))
        yield Round(mixture, len(states) + steps)


def reward_of(density: Density, features: tuple[int, ...], config: MaxEntConfig) -> Reward:
    """1 / (p + eps) of each state, times eps where the config scales it."""
    eps, columns = config.density_eps, list(features)
    scale = eps if config.scale_reward else 1.0

    def reward(states: NDArray[np.float64]) -> NDArray[np.float64]:
        return scale / (density(states[:, columns]) + eps)

    return reward

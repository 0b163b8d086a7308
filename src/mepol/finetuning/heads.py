"""Which policy of a population a task begins with: the one that earns most before anything is learnt."""

from __future__ import annotations

from typing import Any

import numpy as np

from mepol.algorithm.policy import GaussianPolicy
from mepol.algorithm.population import PopulationPolicy
from mepol.finetuning.episodes import EpisodesVectorEnv
from mepol.sampling.actors import check_fit


def best_head(
    population: PopulationPolicy, env: EpisodesVectorEnv, seed: np.random.SeedSequence, place: str
) -> GaussianPolicy:
    """The policy with the highest average return of one episode in each copy of `env`; the first of equals.

    All start in the same states and draw the same noise. place: the task's name, for a population of another one.
    """
    space: Any = env.single_observation_space
    check_fit(population, space.shape[0], env.single_action_space, place)  # type: ignore[arg-type]
    heads = [population.head(number) for number in range(population.size)]
    returns = [average_return(head, env, seed) for head in heads]
    return heads[int(np.argmax(returns))]


def average_return(policy: GaussianPolicy, env: EpisodesVectorEnv, seed: np.random.SeedSequence) -> float:
    """Mean over the M copies of `env` of what `policy` earns in one episode of each."""
    starts, noise = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key).spawn(2)
    rng = np.random.default_rng(noise)
    states, _ = env.reset(seed=[int(word) for word in starts.generate_state(env.num_envs)])
    actor = policy.begin(env.num_envs, rng)
    going, earned = np.ones(env.num_envs, dtype=bool), np.zeros(env.num_envs)
    for _ in range(env.horizon):
        states, rewards, ended, cut, _ = env.step(actor.act(states, rng))
        earned += np.where(going, rewards, 0.0)
        going &= ~(ended | cut)
        if not going.any():
            break
    return float(earned.mean())

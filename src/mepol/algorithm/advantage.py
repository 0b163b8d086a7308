"""The same ascent with less noise: the gradient of Eq. 2 by advantages instead of products of ratios.

At the sampling policy, the gradient of Eq. 2 is a likelihood-ratio gradient,

    grad H = 1/N sum_t grad ln pi(a_t | s_t) sum_{t' >= t} r_{t'},        r_i = ln V_i + const:

a particle is worth the log-volume of its neighbourhood (`Landscape.worth`). Eq. 2 leaves the sum over all later
particles as it is, with no baseline but the mean, and this is most of its noise. Here the sum is a generalised
advantage against a learnt value of the state, and the policy climbs its clipped surrogate (PPO, Schulman et al. 2017)
in minibatches. The objective is the paper's, up to the discount and unless another order of entropy is asked for; the
judge is the paper's in any case: each pass over the batch is kept or undone by Eq. 3.

What it gives up: within an epoch the density is taken as fixed, where Eq. 2 follows it. On slow domains (GridWorld's
rooms) that overshoots, and Eq. 2 is the calmer rule; docs/results/performance.md has the comparison.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mepol.algorithm.ascent import Ascent, Rule, Step
from mepol.algorithm.batch import Batch, Paths
from mepol.algorithm.config import AscentConfig, CriticConfig
from mepol.algorithm.critic import Critic, advantages
from mepol.algorithm.landscape import Landscape
from mepol.algorithm.loop import Iterate, ascend
from mepol.algorithm.policy import Policy

# What a pass climbs, a scalar, by some rows of the batch's steps. It is made from the policy, the steps (N), their
# ln pi(a | s) when they were sampled (N,), their advantages (N,) and the clip.
Surrogate: TypeAlias = Callable[[slice], Tensor]
Surrogates: TypeAlias = Callable[[Policy, Paths, Tensor, Tensor, float], Surrogate]


def climb_by_advantage(
    policy: Policy,
    critic: Critic,
    optimiser: torch.optim.Optimizer,
    batch: Batch,
    landscape: Landscape,
    config: AscentConfig,
    surrogates: Surrogates | None = None,
) -> tuple[Step, ...]:
    """Climb from theta_0 by `config.max_steps` passes over the batch, then teach the critic what the batch says."""
    paths = Paths.of(batch, config.state_discount)
    critic.watch(paths.states)
    gain, returns = _judged(batch, landscape.worth(), critic, config.state_discount)
    if paths.prior is not None:  # a late step moves little that counts
        gain = gain * (paths.prior * len(gain)).float()
    with torch.no_grad():
        sampled = paths.log_prob(policy)
    surrogate = (surrogates or around_the_sampler)(policy, paths, sampled, gain, critic.config.clip)
    parts = max(1, len(sampled) // critic.config.minibatch)

    def move() -> None:
        for part in range(parts):
            rows = slice(part, None, parts)  # evenly spread over trajectories and times
            optimiser.zero_grad()
            surrogate(rows).backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    @torch.no_grad()
    def look() -> Iterate:
        return Iterate.of(paths.log_prob(policy), sampled, paths, landscape)

    steps = ascend(policy, optimiser, config, move=move, look=look)
    critic.fit(paths.states, returns, optimiser)
    return steps


@torch.no_grad()
def _judged(batch: Batch, worth: NDArray[np.float64], critic: Critic, gamma: float) -> tuple[Tensor, Tensor]:
    """From what the particles are worth (N,): standardised advantage of each step (N,), and return (N,) to learn.

    gamma: discount of the states, on top of the critic's own.
    """
    visited = batch.visited()
    rewards = np.zeros(visited.shape)
    rewards[visited] = _standardised(_of_order(critic.config.order, worth)) + critic.config.optimism
    values = critic.values(batch.states)  # (M, T+1)
    own = dataclasses.replace(critic.config, discount=critic.config.discount * gamma)
    gain = advantages(rewards, values, batch.lengths, own)
    returns = (gain + values[:, :-1])[visited]
    return torch.from_numpy(_standardised(gain[visited])).float(), torch.from_numpy(returns).float()


def _of_order(alpha: float, worth: NDArray[np.float64]) -> NDArray[np.float64]:
    """What particles of `worth` (N,), -ln p up to a constant, are worth to Renyi's entropy of order alpha: p^(alpha-1).

    Up to a factor, which standardising takes away, and at alpha = 1 as they were: the gradient of
    ln(integral of p^alpha) / (1 - alpha) pays p^(alpha - 1) where Shannon's pays -ln p.
    """
    if alpha == 1:
        return worth
    thin: NDArray[np.float64] = np.exp((1 - alpha) * (worth - worth.max()))
    return thin


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled: NDArray[np.float64] = (values - values.mean()) / max(float(values.std()), 1e-8)
    return scaled


def _surrogate(log_ratio: Tensor, gain: Tensor, clip: float) -> Tensor:
    """Mean of (N,) ratio times advantage, without credit for a ratio beyond 1 +- clip."""
    ratio = log_ratio.exp()
    return torch.minimum(ratio * gain, ratio.clamp(1 - clip, 1 + clip) * gain).mean()


def around_the_sampler(policy: Policy, paths: Paths, sampled: Tensor, gain: Tensor, clip: float) -> Surrogate:
    """PPO's: clipped around the policy that sampled the batch."""
    return lambda rows: _surrogate(paths.log_prob(policy, rows) - sampled[rows], gain[rows], clip)


def joint_optimiser(policy: Policy, critic: Critic, config: AscentConfig) -> torch.optim.Optimizer:
    """Adam over two groups: the parameters of `policy`, which climb, and those of `critic`, which descend."""
    climbs: dict[str, Any] = {"params": list(policy.parameters())}
    descends: dict[str, Any] = {
        "params": list(critic.parameters()),
        "lr": critic.config.critic_rate,
        "maximize": False,
    }
    return torch.optim.Adam([climbs, descends], lr=config.learning_rate, eps=config.damping, maximize=True, fused=True)


def by_advantage(
    policy: Policy, config: AscentConfig, critic: CriticConfig, state_dim: int, rng: np.random.Generator
) -> Ascent:
    """The rule for `policy`, with a new critic whose weights `rng` draws."""
    return judged_by(Critic(state_dim, critic, rng), policy, config)


def judged_by(critic: Critic, policy: Policy, config: AscentConfig, surrogates: Surrogates | None = None) -> Ascent:
    """The rule for `policy` with a critic that has seen nothing; from here on it knows the policy's mirrors.

    surrogates: what its passes climb, PPO's unless another is handed in.
    """
    critic.tie(getattr(policy, "symmetries", ()))
    optimiser = joint_optimiser(policy, critic, config)
    return Ascent(
        lambda batch, landscape: climb_by_advantage(policy, critic, optimiser, batch, landscape, config, surrogates),
        modules={"policy": policy, "critic": critic},
        optimisers={"ascent": optimiser},
    )


ADVANTAGE = Rule("advantage", "the same gradient by a critic's advantages, a pass per step", by_advantage, False)

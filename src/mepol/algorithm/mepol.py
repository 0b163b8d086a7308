"""Maximum Entropy POLicy optimization: Algorithm 1 of the paper, in its order and with its symbols.

    symbol   here                  shape    meaning
    theta    policy.parameters()            the policy being improved
    tau      batch                 M x T    trajectories drawn with theta_0, N steps in all
    s_i      search(batch)         (N, D)   particles: the states s_1 .. s_T, on the entropy features
    N_i^k    near.index            (N, K)   each particle's k nearest others
    ln V_i   near.log_volume       (N,)     log-volume of the ball that reaches the k-th of them
    w_i      weights               (N,)     normalised importance weight of the path that led to particle i
    W_i      mass                  (N,)     weight in the neighbourhood of i
    delta    config.kl_threshold            trust region, nats
    alpha    config.learning_rate           step size

Where this leaves the paper (docs/decisions.md): an epoch ends with the last iterate *inside* the trust region,
not with the one that broke it; the ascent is Adam unless plain SGD is asked for; a rejected step is undone
wholly, weights and moments; weights are a softmax of cumulative log-ratios, which cannot overflow.

Nothing here knows an environment, a file, a clock or a seed: `sample` and `search` are handed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mepol.algorithm.batch import Batch
from mepol.algorithm.config import AscentConfig
from mepol.algorithm.critic import Critic
from mepol.algorithm.policy import GaussianPolicy
from mepol.estimators import effective_sample_size, entropy, neighbour_mass, state_kl, weighted_entropy
from mepol.neighbours import Neighbours


@dataclass(frozen=True)
class Step:
    """One tried gradient step: what Eq. 2 and Eq. 3 say of where it led (nats)."""

    accepted: bool
    learning_rate: float
    entropy: float
    kl: float
    ess: float


@dataclass(frozen=True)
class Epoch:
    """One policy, the batch it drew, and the climb from it to the next policy."""

    epoch: int  # index of the policy that drew the batch; 0 is the initial one
    particles: int  # N
    entropy: float  # of that policy, nats (Eq. 1)
    steps: tuple[Step, ...]

    @property
    def accepted(self) -> tuple[Step, ...]:
        """The steps that stayed inside the trust region."""
        return tuple(step for step in self.steps if step.accepted)

    @property
    def kl(self) -> float:
        """State KL from this policy to the next, nats; 0 when no step was accepted."""
        return self.accepted[-1].kl if self.accepted else 0.0

    @property
    def ess(self) -> float:
        """Effective sample size of the batch under the next policy; N when no step was accepted."""
        return self.accepted[-1].ess if self.accepted else float(self.particles)


Climb = Callable[[GaussianPolicy, torch.optim.Optimizer, Batch, Neighbours, AscentConfig], tuple[Step, ...]]


def mepol(
    policy: GaussianPolicy,
    optimiser: torch.optim.Optimizer,
    sample: Callable[[int], Batch],
    search: Callable[[Batch], Neighbours],
    config: AscentConfig,
    *,
    first_epoch: int = 0,
    climb: Climb | None = None,
) -> Iterator[Epoch]:
    """Algorithm 1: improve `policy` in place, for ever; yields one Epoch after each update.

    sample(e) draws a batch with the current policy; search(batch) finds the neighbours of its particles;
    climb is the IsOptimizer unless another is given (advantage.py has one).
    """
    climb = climb or is_optimise
    epoch = first_epoch
    while True:
        batch = sample(epoch)
        near = search(batch)
        steps = climb(policy, optimiser, batch, near, config)
        yield Epoch(epoch, near.n, entropy(near), steps)
        epoch += 1


def is_optimise(
    policy: GaussianPolicy,
    optimiser: torch.optim.Optimizer,
    batch: Batch,
    near: Neighbours,
    config: AscentConfig,
) -> tuple[Step, ...]:
    """IS-Optimizer: climb Eq. 2 from theta_0 by importance sampling while Eq. 3 stays below delta.

    One forward and at most one backward pass a step: entropy, KL and gradient of an iterate share them.
    """
    paths = Paths.of(batch)
    log_prob = policy.log_prob(paths.states, paths.actions)  # (N,)
    sampled = log_prob.detach()  # under theta_0: the same pass serves both, so the first ratios are exactly 1
    _gradient(Iterate.of(log_prob, sampled, paths, near), optimiser)
    return ascend(
        policy,
        optimiser,
        config,
        move=optimiser.step,  # theta_{h+1} = theta_h + alpha grad H
        look=lambda: Iterate.of(policy.log_prob(paths.states, paths.actions), sampled, paths, near),
        prepare=lambda iterate: _gradient(iterate, optimiser),
    )


def ascend(
    policy: GaussianPolicy,
    optimiser: torch.optim.Optimizer,
    config: AscentConfig,
    *,
    move: Callable[[], object],
    look: Callable[[], Iterate],
    prepare: Callable[[Iterate], None] = lambda _: None,
) -> tuple[Step, ...]:
    """Move, look where it led, and stay inside the trust region.

    The first move that leaves the region is undone and tried again at half the rate; after that at most one more
    is made, since the boundary is near. `prepare` is called with each iterate from which another move starts.
    """
    steps: list[Step] = []
    accepted = backtracks = 0
    while accepted < config.max_steps:
        rate = config.learning_rate / 2**backtracks
        undo = Undo(policy, optimiser)
        optimiser.param_groups[0]["lr"] = rate
        move()
        iterate = look()
        inside = iterate.is_inside(config)
        steps.append(Step(inside, rate, iterate.entropy.item(), iterate.kl.item(), iterate.ess.item()))
        if inside:
            accepted += 1
            if backtracks:
                break
            if accepted < config.max_steps:
                prepare(iterate)
        else:
            undo()  # the gradient of the last valid iterate is still in place
            backtracks += 1
            if backtracks > config.max_backtracks:
                break
    return tuple(steps)


def make_optimiser(policy: GaussianPolicy, config: AscentConfig, critic: Critic | None = None) -> torch.optim.Optimizer:
    """The ascent rule of `config` over all parameters of `policy`; a critic's are a second group, and descend."""
    if critic is not None:
        climbs: dict[str, Any] = {"params": list(policy.parameters())}
        descends: dict[str, Any] = {
            "params": list(critic.parameters()),
            "lr": critic.config.critic_rate,
            "maximize": False,
        }
        return torch.optim.Adam([climbs, descends], lr=config.learning_rate, maximize=True, fused=True)
    if config.optimiser == "adam":
        return torch.optim.Adam(policy.parameters(), lr=config.learning_rate, maximize=True, fused=True)
    return torch.optim.SGD(policy.parameters(), lr=config.learning_rate, maximize=True)


@dataclass(frozen=True)
class Paths:
    """The steps of a batch as the optimiser reads them: visited ones only, trajectory after trajectory."""

    states: Tensor  # (N, S) float32, s_0 .. s_{length-1}
    actions: Tensor  # (N, A) float32
    visited: Tensor  # (M, T) bool

    @staticmethod
    def of(batch: Batch) -> Paths:
        """The paths of `batch`, in the order of `batch.particles`."""
        visited = batch.visited()
        states = batch.states[:, :-1][visited].astype(np.float32)
        return Paths(torch.from_numpy(states), torch.from_numpy(batch.actions[visited]), torch.from_numpy(visited))


@dataclass(frozen=True)
class Iterate:
    """Eq. 2 and Eq. 3 at one theta_h, still attached to the graph that gives their gradient."""

    entropy: Tensor
    kl: Tensor
    ess: Tensor
    policy_kl: Tensor  # mean over the steps of KL(pi_0 || pi_h) of the actions, nats a step

    @staticmethod
    def of(log_prob: Tensor, sampled: Tensor, paths: Paths, near: Neighbours) -> Iterate:
        """From ln pi (N,) of each step under theta_h and under theta_0, which sampled it."""
        log_ratio = (log_prob - sampled).double()
        weights = importance_weights(log_ratio, paths.visited)
        mass = neighbour_mass(weights, near)
        with torch.no_grad():
            kl, ess = state_kl(mass, near), effective_sample_size(weights)
            policy_kl = (log_ratio.expm1() - log_ratio).mean()  # never negative, unlike the mean of -ln ratio
        return Iterate(weighted_entropy(mass, near), kl, ess, policy_kl)

    def is_inside(self, config: AscentConfig) -> bool:
        """Whether entropy and KL are numbers, and the latter within the trust region."""
        if not (math.isfinite(self.entropy.item()) and math.isfinite(self.kl.item())):
            return False
        near_enough = not config.policy_kl or self.policy_kl.item() <= config.policy_kl
        return near_enough and self.kl.item() <= config.kl_threshold


def importance_weights(log_ratio: Tensor, visited: Tensor) -> Tensor:
    """w (N,), normalised over the batch: the product of ratios along the path up to each particle.

    log_ratio: (N,) ln pi_theta'(a|s) - ln pi_theta(a|s) of each visited step; visited: (M, T).
    """
    along = torch.zeros(visited.shape, dtype=log_ratio.dtype).masked_scatter(visited, log_ratio)  # (M, T)
    log_weight = along.cumsum(1)[visited]  # (N,)
    return torch.softmax(log_weight, 0)


def _gradient(iterate: Iterate, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad()
    iterate.entropy.backward()  # type: ignore[no-untyped-call]


class Undo:
    """Takes back everything that one optimiser step changed: parameters, moments and step counts."""

    def __init__(self, policy: GaussianPolicy, optimiser: torch.optim.Optimizer) -> None:
        self._optimiser = optimiser
        self._parameters = [(p, p.detach().clone()) for p in policy.parameters()]
        self._state = {
            p: {name: value.clone() for name, value in state.items() if isinstance(value, Tensor)}
            for p, state in optimiser.state.items()
        }

    @torch.no_grad()
    def __call__(self) -> None:
        """Restore. Optimiser entries that the step created are removed."""
        for parameter, value in self._parameters:
            parameter.copy_(value)
        for key in list(self._optimiser.state):
            if key in self._state:
                self._optimiser.state[key].update(self._state[key])
            else:
                del self._optimiser.state[key]

"""Maximum Entropy POLicy optimization: Algorithm 1 of the paper, in its order and with its symbols.

    symbol   here                  shape    meaning
    theta    policy.parameters()            the policy being improved
    tau      batch                 M x T    trajectories drawn with theta_0, N steps in all
    s_i      batch.particles(...)  (N, D)   particles: the states s_1 .. s_T, on the entropy features
    N_i^k    near.index            (N, K)   each particle's k nearest others, inside search(batch)
    ln V_i   near.log_volume       (N,)     log-volume of the ball that reaches the k-th of them
    w_i      weights               (N,)     normalised importance weight of the path that led to particle i
    W_i      mass                  (N,)     weight in the neighbourhood of i
    delta    config.kl_threshold            trust region, nats
    alpha    config.learning_rate           step size

Where this leaves the paper (docs/method/decisions.md): an epoch ends with the last iterate *inside* the trust region,
not with the one that broke it; the ascent is Adam unless plain SGD is asked for; a rejected step is undone
wholly, weights and moments; weights are a softmax of cumulative log-ratios, which cannot overflow.

Nothing here knows an environment, a file, a clock or a seed: `sample`, `search` and `climb` are handed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mepol.algorithm.ascent import Ascent, Climb, Rule, Step, Undo, make_optimiser
from mepol.algorithm.batch import Batch, Paths
from mepol.algorithm.config import AscentConfig, CriticConfig
from mepol.algorithm.landscape import Landscape
from mepol.algorithm.policy import Policy
from mepol.estimators import effective_sample_size


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


def mepol(
    sample: Callable[[int], Batch], search: Callable[[Batch], Landscape], climb: Climb, *, first_epoch: int = 0
) -> Iterator[Epoch]:
    """Algorithm 1: improve a policy in place, for ever; yields one Epoch after each update.

    sample(e) draws a batch with the policy of epoch e; search(batch) makes the objective of its particles;
    climb(batch, landscape) improves that policy, as an Ascent of one of the RULES does.
    """
    epoch = first_epoch
    while True:
        batch = sample(epoch)  # tau ~ pi_theta
        landscape = search(batch)  # N_i^k and V_i of each particle
        steps = climb(batch, landscape)  # theta = IS-Optimizer(tau, theta)
        yield Epoch(epoch, landscape.n, landscape.entropy(), steps)
        epoch += 1


def climb_by_importance(
    policy: Policy, optimiser: torch.optim.Optimizer, batch: Batch, landscape: Landscape, config: AscentConfig
) -> tuple[Step, ...]:
    """IS-Optimizer: climb Eq. 2 from theta_0 by importance sampling while Eq. 3 stays below delta.

    One forward and at most one backward pass per step: entropy, KL and gradient of an iterate share them.
    """
    paths = Paths.of(batch, config.state_discount)
    log_prob = paths.log_prob(policy)  # (N,)
    sampled = log_prob.detach()  # under theta_0: the same pass serves both, so the first ratios are exactly 1
    _gradient(Iterate.of(log_prob, sampled, paths, landscape), optimiser)
    return ascend(
        policy,
        optimiser,
        config,
        move=optimiser.step,  # theta_{h+1} = theta_h + alpha grad H
        look=lambda: Iterate.of(paths.log_prob(policy), sampled, paths, landscape),
        prepare=lambda iterate: _gradient(iterate, optimiser),
    )


def ascend(
    policy: Policy,
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


@dataclass(frozen=True)
class Iterate:
    """Eq. 2 and Eq. 3 at one theta_h; the entropy is still attached to the graph that gives its gradient."""

    entropy: Tensor
    kl: Tensor
    ess: Tensor
    policy_kl: Tensor  # mean over the steps of KL(pi_0 || pi_h) of the actions, nats per step

    @staticmethod
    def of(log_prob: Tensor, sampled: Tensor, paths: Paths, landscape: Landscape) -> Iterate:
        """From ln pi (N,) of each step under theta_h and under theta_0, which sampled it."""
        log_ratio = (log_prob - sampled).double()
        weights = importance_weights(log_ratio, paths.visited, paths.prior)
        entropy, kl = landscape.weighted(weights)
        with torch.no_grad():
            ess = effective_sample_size(weights)
            policy_kl = (log_ratio.expm1() - log_ratio).mean()  # never negative, unlike the mean of -ln ratio
        return Iterate(entropy, kl.detach(), ess, policy_kl)

    def is_inside(self, config: AscentConfig) -> bool:
        """Whether entropy and KL are numbers, and the latter within the trust region."""
        if not (math.isfinite(self.entropy.item()) and math.isfinite(self.kl.item())):
            return False
        near_enough = not config.policy_kl or self.policy_kl.item() <= config.policy_kl
        return near_enough and self.kl.item() <= config.kl_threshold


def importance_weights(log_ratio: Tensor, visited: Tensor, prior: Tensor | None = None) -> Tensor:
    """w (N,), normalised over the batch: the product of ratios along the path up to each particle.

    log_ratio: (N,) ln pi_theta'(a|s) - ln pi_theta(a|s) of each visited step; visited: (M, T).
    prior: (N,) what each particle counts at ratios of 1, where they do not count alike.
    """
    along = torch.zeros(visited.shape, dtype=log_ratio.dtype).masked_scatter(visited, log_ratio)  # (M, T)
    log_weight = along.cumsum(1)[visited]  # (N,)
    if prior is not None:
        log_weight = log_weight + prior.log()
    return torch.softmax(log_weight, 0)


def _gradient(iterate: Iterate, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad()
    iterate.entropy.backward()  # type: ignore[no-untyped-call]


def by_importance(
    policy: Policy, config: AscentConfig, critic: CriticConfig, state_dim: int, rng: np.random.Generator
) -> Ascent:
    """The paper's rule for `policy`: it learns nothing beside the policy."""
    optimiser = make_optimiser(policy, config)
    return Ascent(
        lambda batch, landscape: climb_by_importance(policy, optimiser, batch, landscape, config),
        modules={"policy": policy},
        optimisers={"ascent": optimiser},
    )


IMPORTANCE = Rule("importance", "the gradient of Eq. 2 by importance weights: the paper", by_importance, True)

"""How much one batch's policy gradient says, by how far the critic is trusted: the reason for a `--trace`.

    python benchmarks/gradient_noise.py results/ant-fast-seed-0 [--batches 24] [--discount 0.99] [--trace 0.8 0.95 ...]

Independent batches are sampled from the run's policy with the run's own settings. A critic is fitted to one half of
them; on the other half each batch gives a gradient of its advantages. Printed for each (discount, trace):

    alike       mean cosine of the gradients of two batches: 0 is pure noise, 1 needs one batch only
    long sight  mean cosine with the sum of the other batches' gradients at discount 0.995, trace 1: a signal that is
                alike but wrong would be low here
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from mepol.algorithm.batch import Batch
from mepol.algorithm.config import CriticConfig
from mepol.algorithm.critic import Critic, advantages
from mepol.algorithm.policy import GaussianPolicy
from mepol.exploration.workshop import Workshop, open_workshop
from mepol.neighbours import neighbours
from mepol.run import Run
from mepol.runs.streams import Stream, stream

Array = NDArray[np.float64]
ROUNDS, STEPS, ROWS = 3, 500, 1000  # of the critic's regression: targets are made anew each round


def sample(policy: GaussianPolicy, workshop: Workshop, count: int) -> tuple[list[Batch], list[Array]]:
    """Batches, and the (M, T) standardised log-volumes around their particles: what the rule calls a reward."""
    batches, rewards, config, domain = [], [], workshop.config, workshop.domain
    for number in range(count):
        seed = stream(config.seed + 1, Stream.BATCH, number)
        batch = workshop.collect(policy, config.trajectories, config.horizon, seed)
        particles = domain.particles(batch) / np.array(domain.widths)
        volume = neighbours(particles, config.ascent.k, eps=config.ascent.eps).log_volume
        batches.append(batch)
        rewards.append(standardised(volume).reshape(config.trajectories, config.horizon))
        print(f"\rsampled {number + 1}/{count} batches", end="", flush=True)
    print()
    return batches, rewards


def standardised(x: Array) -> Array:
    return np.asarray((x - x.mean()) / x.std())


def states_of(batch: Batch) -> torch.Tensor:
    """(M, T+1, S)."""
    return torch.from_numpy(batch.states.astype(np.float32))


def fitted(batches: list[Batch], rewards: list[Array], config: CriticConfig) -> Critic:
    """A critic of the batches' returns under the config's discount and trace."""
    visited = torch.cat([states_of(b)[:, :-1].flatten(0, 1) for b in batches])
    critic = Critic(visited.shape[1], config, np.random.default_rng(0))
    critic.watch(visited)
    adam = torch.optim.Adam(critic.parameters(), 1e-3)
    draw = torch.Generator().manual_seed(0)
    for _ in range(ROUNDS):
        pairs = zip(batches, rewards, strict=True)
        targets = torch.from_numpy(np.concatenate([returns(b, r, critic, config) for b, r in pairs])).float()
        for _ in range(STEPS):
            rows = torch.randint(0, len(visited), (ROWS,), generator=draw)
            adam.zero_grad()
            (critic(visited[rows]) - targets[rows]).square().mean().backward()
            adam.step()
    return critic


def returns(batch: Batch, reward: Array, critic: Critic, config: CriticConfig) -> Array:
    value = values(batch, critic)
    return np.asarray(advantages(reward, value, batch.lengths, config) + value[:, :-1]).reshape(-1)


@torch.no_grad()
def values(batch: Batch, critic: Critic) -> Array:
    return np.asarray(critic(states_of(batch)).double())


def gradients(policy: GaussianPolicy, batches: list[Batch], rewards: list[Array], config: CriticConfig) -> Array:
    """(B/2, P) of the second half of the batches; the critic is fitted to the first."""
    half = len(batches) // 2
    critic = fitted(batches[:half], rewards[:half], config)
    rows = []
    for batch, reward in zip(batches[half:], rewards[half:], strict=True):
        weight = standardised(advantages(reward, values(batch, critic), batch.lengths, config).reshape(-1))
        acts = torch.from_numpy(batch.actions.astype(np.float32)).flatten(0, 1)
        log_prob = policy.log_prob(states_of(batch)[:, :-1].flatten(0, 1), acts)
        slope = torch.autograd.grad((log_prob * torch.from_numpy(weight).float()).mean(), list(policy.parameters()))
        rows.append(torch.cat([s.flatten() for s in slope]).double().numpy())
    return np.array(rows)


def cosine(a: Array, b: Array) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--batches", type=int, default=24)
    parser.add_argument("--discount", type=float, nargs="+", default=[0.99])
    parser.add_argument("--trace", type=float, nargs="+", default=[0.8, 0.9, 0.95, 0.99])
    arguments = parser.parse_args()
    if arguments.batches < 4:
        parser.error("--batches must be at least 4: half fit the critic, and two gradients make one cosine")
    torch.set_num_threads(1)
    run = Run.open(arguments.run)
    if not run.config.ignore_termination:
        parser.error(f"{arguments.run} cuts its trajectories where episodes end; this takes whole ones only")
    policy = run.policy
    with open_workshop(run.config, domain=run.domain) as workshop:
        batches, rewards = sample(policy, workshop, arguments.batches)
    far = gradients(policy, batches, rewards, replace(run.config.critic, discount=0.995, trace=1.0))
    print("discount  trace  alike  long sight")
    for discount in arguments.discount:
        for trace in arguments.trace:
            g = gradients(policy, batches, rewards, replace(run.config.critic, discount=discount, trace=trace))
            alike = np.mean([cosine(g[i], g[j]) for i in range(len(g)) for j in range(i)])
            sight = np.mean([cosine(g[i], far.sum(0) - far[i]) for i in range(len(g))])
            print(f"{discount:8g}  {trace:5g}  {alike:5.3f}  {sight:10.3f}", flush=True)


if __name__ == "__main__":
    main()

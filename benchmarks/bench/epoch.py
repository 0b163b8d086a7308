"""What an epoch costs, beside the least it could cost: floors measured in the same run.

    part        what is timed                       floor
    sampling    `collect` of one batch              the environment's own steps and the policy's bare matrix products
    neighbours  search, and the sparse adjacency    one gather of every neighbour's coordinates (memory traffic)
    optimise    IS-Optimizer, all its steps         the matrix products of the passes that it made

Each number is the median of several repetitions, with the range of the middle half beside it: machines are noisy,
so only ratios taken in one run mean anything.
"""

from __future__ import annotations

import copy
import itertools
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv

from bench.clock import middle_half, seconds
from mepol.algorithm import RULES, Batch, GaussianPolicy, KnnLandscape, Step
from mepol.algorithm.policy import ROWS
from mepol.exploration.config import ExploreConfig
from mepol.exploration.learner import search
from mepol.exploration.policies import make_policy
from mepol.exploration.presets import preset
from mepol.exploration.workshop import open_workshop
from mepol.neighbours import Neighbours
from mepol.runs.machine import threads_in_force
from mepol.runs.streams import Stream, stream
from mepol.sampling.collect import collect

PARTS = ("sampling", "neighbours", "optimise")
DOMAINS = ("mountain-car", "gridworld", "ant", "humanoid")


@dataclass(frozen=True)
class Timing:
    """Seconds of one part and of its floor: medians, and the middle half of the repetitions."""

    domain: str
    part: str
    seconds: float
    spread: tuple[float, float]
    floor: float
    floor_spread: tuple[float, float]

    @property
    def ratio(self) -> float:
        """How many times its floor the part costs."""
        return self.seconds / self.floor


def bench_domain(
    name: str,
    parts: tuple[str, ...] = PARTS,
    *,
    repetitions: int = 5,
    report: Callable[[Timing], None] = lambda _: None,
) -> list[Timing]:
    """Time the parts of one epoch of the preset `name`.

    Part and floor alternate, so that a busy moment of the machine meets both.
    """
    config = preset(name).config
    with threads_in_force(config.machine), open_workshop(config) as workshop:
        env, domain = workshop.env(config.trajectories), workshop.domain
        policy = make_policy(config, domain)
        batch = collect(policy, env, config.horizon, seed=stream(0, Stream.BATCH))
        near = search(batch, domain, config, config.machine.cores).near
        steps = _optimise(config, policy, batch, near) if "optimise" in parts else ()
        # A step by importance looks and moves with one forward pass; a pass by advantages needs one for each.
        by_passes = not RULES[config.ascent.rule].weights_matter
        backward = len(steps) if by_passes else sum(step.accepted for step in steps)
        forward = 1 + len(steps) * (2 if by_passes else 1)
        work: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "sampling": (
                lambda: collect(policy, env, config.horizon, seed=stream(0, Stream.BATCH)),
                lambda: _bare_sampling(env, policy, batch),
            ),
            "neighbours": (
                lambda: search(batch, domain, config, config.machine.cores).near.adjacency,
                lambda: domain.particles(batch)[near.index],
            ),
            "optimise": (
                lambda: _optimise(config, policy, batch, near),
                lambda: _bare_passes(policy, batch.size, forward=forward, backward=backward),
            ),
        }
        results = []
        for part in parts:
            timing = alternate(name, part, *work[part], repetitions)
            results.append(timing)
            report(timing)
        return results


def alternate(
    domain: str, part: str, work: Callable[[], object], floor: Callable[[], object], repetitions: int
) -> Timing:
    """Time `work` and `floor` in turn, so that a busy moment of the machine meets both."""
    pairs = [(seconds(work), seconds(floor)) for _ in range(repetitions + 1)][1:]  # the first one warms up
    ours, floors = ([pair[i] for pair in pairs] for i in (0, 1))
    return Timing(
        domain, part, statistics.median(ours), middle_half(ours), statistics.median(floors), middle_half(floors)
    )


def _optimise(config: ExploreConfig, policy: GaussianPolicy, batch: Batch, near: Neighbours) -> tuple[Step, ...]:
    """One climb from the policy that drew the batch; on a copy, so that every repetition climbs the same hill."""
    rule, rng = RULES[config.ascent.rule], np.random.default_rng(stream(config.seed, Stream.CRITIC))
    ascent = rule.make(copy.deepcopy(policy), config.ascent, config.critic, policy.widths[0], rng)
    return ascent.climb(batch, KnnLandscape(near))


@torch.no_grad()
def _bare_sampling(env: VectorEnv[Any, Any, Any], policy: GaussianPolicy, batch: Batch) -> None:
    """The environment fed with the actions of a batch, and then the matrix products that drew them."""
    m, calls = batch.actions.shape[:2]
    env.reset(seed=0)
    for t in range(calls):
        env.step(batch.actions[:, t])
    layers = [(torch.ones(m, i), torch.ones(i, o)) for i, o in itertools.pairwise(policy.widths)]
    for _ in range(calls):
        for x, weight in layers:
            x @ weight


@torch.no_grad()
def _bare_passes(policy: GaussianPolicy, rows: int, *, forward: int, backward: int) -> None:
    """The matrix products of so many forward and backward passes over `rows` states, and nothing else.

    A layer costs x W forward, and backward x^T g for its weights and g W^T for its input (not for the first). They
    are done in blocks of rows that stay in cache, the quickest way known.
    """
    block = min(rows, ROWS)
    layers = [
        (torch.ones(block, i), torch.ones(i, o), torch.ones(block, o)) for i, o in itertools.pairwise(policy.widths)
    ]
    for step in range(max(forward, backward)):
        for _ in range(math.ceil(rows / block)):
            for number, (x, weight, g) in enumerate(layers):
                if step < forward:
                    x @ weight
                if step < backward:
                    x.T @ g
                if step < backward and number:
                    g @ weight.T

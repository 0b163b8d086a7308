"""Earlier batches in Eq. 2: the union of the last L, weighted by the balance heuristic (Veach and Guibas 1995).

Batch j was drawn by theta_j; the newest, by the policy theta_0 that climbs. A path tau up to step t counts

    w(tau) = p_theta(tau) / sum_j c_j(t) p_theta_j(tau)
           = p_theta(tau) / p_theta_0(tau)  x  p_theta_0(tau) / sum_j c_j(t) p_theta_j(tau)

where c_j(t) is the share of batch j among the trajectories that were to take step t: N_j / N where horizons are alike.
What the environment does cancels, so that p is the product of the policy's densities along the path; all of this is
sums of logarithms. The first factor is what a climb computes anyway (`importance_weights`), the second does not depend
on theta: it is the prior weight of each particle, and with it the union is a batch like any other. Eq. 1 of it is the
entropy of theta_0, and Eq. 3 compares with theta_0 (`KnnLandscape.prior`).

No weight exceeds N over the size of the newest batch, but an old batch may hold nothing any more and cost as much as a
new one: it is dropped, the oldest first, where it adds less than `LEAST` of itself to the effective sample size.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mepol.algorithm.batch import Batch, Paths
from mepol.algorithm.policy import Policy
from mepol.estimators import effective_sample_size

LEAST = 0.1  # of a batch, that it must add to the effective sample size to stay
FAINT = -70.0  # ln of the least weight beside the largest: no neighbourhood is ever without any


@dataclass(frozen=True)
class Drawn:
    """A batch, and the policy that drew it as it was then."""

    batch: Batch
    policy: Policy


@dataclass(frozen=True)
class Dropped:
    """A union that was given up for one without its oldest batch."""

    batches: int
    ess: float
    """Its effective sample size, in particles."""


@dataclass(frozen=True)
class Union:
    """What one epoch climbs on."""

    batch: Batch
    """All trajectories, the oldest first, with the weights that theta_0 gives them."""
    drawn: tuple[Drawn, ...]
    """The batches in it, the oldest first."""
    dropped: tuple[Dropped, ...]
    """What was given up for it, in this order."""


def gather(drawn: Sequence[Drawn], gamma: float = 1.0) -> Union:
    """The union of `drawn`, the oldest first and the present policy's own last, without those that add too little.

    gamma: discount of the states, of which the effective sample size takes account.
    """
    along = [[path_log_prob(own.batch, other.policy) for other in drawn] for own in drawn]
    sizes = [own.batch.actions.shape[:2] for own in drawn]

    def union(first: int) -> Batch:
        if first == len(drawn) - 1:
            return drawn[first].batch
        weights = [balance(rows[first:], sizes[first:]).numpy() for rows in along[first:]]
        return _joined([own.batch for own in drawn[first:]], weights)

    dropped: list[Dropped] = []
    chosen = union(0)
    ess = _effective(chosen, gamma)
    for first, oldest in enumerate(drawn[:-1]):
        shorter = union(first + 1)
        without = _effective(shorter, gamma)
        if ess - without >= LEAST * _effective(oldest.batch, gamma):
            break
        dropped.append(Dropped(len(drawn) - first, ess))
        chosen, ess = shorter, without
    return Union(chosen, tuple(drawn[len(dropped) :]), tuple(dropped))


@torch.no_grad()
def path_log_prob(batch: Batch, policy: Policy) -> Tensor:
    """(M, T) float64, ln of the density that `policy` gives to the actions of each path up to each step, in nats."""
    paths = Paths.of(batch)
    steps = torch.zeros(paths.visited.shape, dtype=torch.float64)
    return steps.masked_scatter(paths.visited, paths.log_prob(policy).double()).cumsum(1)


def balance(along: Sequence[Tensor], sizes: Sequence[tuple[int, ...]]) -> Tensor:
    """(M, T) ln of the balance heuristic's weight of the last policy, up to a constant.

    along: `path_log_prob` (M, T) of one batch under each policy; sizes: (M_j, T_j) of the batch that each drew.
    """
    step = torch.arange(along[0].shape[1])
    never = torch.tensor(-math.inf, dtype=torch.float64)
    shares = [torch.where(step < t, torch.tensor(math.log(m), dtype=torch.float64), never) for m, t in sizes]
    return along[-1] - torch.logsumexp(torch.stack([a + c for a, c in zip(along, shares, strict=True)]), 0)


def _joined(batches: Sequence[Batch], log_weights: Sequence[NDArray[np.float64]]) -> Batch:
    """One batch of all trajectories, padded to the longest, with (M, T) weights of each."""
    longest = max(batch.actions.shape[1] for batch in batches)
    largest = max(float(w[b.visited()].max()) for b, w in zip(batches, log_weights, strict=True))

    def padded(array: NDArray[Any], length: int) -> NDArray[Any]:
        return np.pad(array, [(0, 0), (0, length - array.shape[1])] + [(0, 0)] * (array.ndim - 2))

    alike = [Batch(padded(b.states, longest + 1), padded(b.actions, longest), b.lengths) for b in batches]
    weights = np.concatenate([padded(np.maximum(w - largest, FAINT), longest) for w in log_weights])
    return dataclasses.replace(Batch.joined(alike), log_weights=weights)


def _effective(batch: Batch, gamma: float) -> float:
    weights = batch.discounted(gamma)
    return float(batch.size) if weights is None else effective_sample_size(weights).item()

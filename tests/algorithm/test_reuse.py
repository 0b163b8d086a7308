"""The union of batches against products of densities, finite differences and closed forms."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor, nn

import mepol
from mepol.algorithm.batch import Batch, Paths
from mepol.algorithm.landscape import KnnLandscape
from mepol.algorithm.loop import Iterate
from mepol.algorithm.policy import GaussianPolicy
from mepol.algorithm.reuse import Drawn, balance, gather, path_log_prob


class Drift(nn.Module):
    """Moves along a line, normal around a mean that does not ask where it stands."""

    def __init__(self, drift: float) -> None:
        super().__init__()
        self.drift = nn.Parameter(torch.tensor(drift, dtype=torch.float64))

    def log_prob(self, states: Tensor, actions: Tensor) -> Tensor:
        return (-0.5 * (actions.double() - self.drift).square() - 0.5 * math.log(2 * math.pi)).sum(-1)


def walk(policy: Drift, m: int, t: int, seed: int = 0) -> Drawn:
    moves = policy.drift.item() + np.random.default_rng(seed).normal(size=(m, t, 1))
    states = np.concatenate([np.zeros((m, 1, 1)), moves.cumsum(axis=1)], axis=1)
    return Drawn(Batch(states, moves.astype(np.float32), np.full(m, t)), policy)


def weights_of(batch: Batch) -> NDArray[np.float64]:
    weights = batch.discounted(1.0)
    assert weights is not None
    return weights.numpy()


def test_weights_are_those_of_brute_force_products() -> None:
    """Two steps, three policies, batches of different sizes: w = p_theta / sum_j (N_j / N) p_j, each p a product."""
    drifts, sizes = (0.0, 0.4, 0.7), (4, 3, 5)
    drawn = [walk(Drift(d), m, 2, seed) for seed, (d, m) in enumerate(zip(drifts, sizes, strict=True))]
    union = gather(drawn).batch
    expected = []
    for own in drawn:
        for first, second in own.batch.actions[:, :, 0].astype(float):
            for path in ((first,), (first, second)):
                density = [math.prod(norm.pdf(move, d) for move in path) for d in drifts]
                shares = [m / sum(sizes) for m in sizes]
                expected.append(density[-1] / sum(c * p for c, p in zip(shares, density, strict=True)))
    assert weights_of(union) == pytest.approx(np.array(expected) / sum(expected), rel=1e-6)
    assert union.size == 24
    assert union.states[4, 0, 0] == 0.0
    assert np.array_equal(union.particles((0,))[8:14], drawn[1].batch.particles((0,)))


def test_a_longer_horizon_shares_its_late_steps_with_nobody() -> None:
    """One step by theta_1 and two by theta_0: the second step has but one policy that could have drawn it."""
    old, new = walk(Drift(0.3), 6, 1), walk(Drift(0.0), 4, 2, seed=1)
    along = [path_log_prob(new.batch, policy) for policy in (old.policy, new.policy)]
    weight = balance(along, [(6, 1), (4, 2)]).exp().numpy()
    first = new.batch.actions[:, 0, 0].astype(float)
    density = norm.pdf(first)
    assert weight[:, 0] == pytest.approx(density / (6 * norm.pdf(first, 0.3) + 4 * density), rel=1e-6)
    assert weight[:, 1] == pytest.approx(np.full(4, 1 / 4), rel=1e-12)
    assert gather([old, new]).batch.actions.shape == (10, 2, 1)
    assert gather([old, new]).batch.lengths.tolist() == [1] * 6 + [2] * 4


def test_batches_of_one_policy_count_alike() -> None:
    """Then Eq. 1 of the union is the plain entropy of all its particles, and nothing is dropped."""
    drawn = [walk(Drift(0.2), 20, 10, seed) for seed in range(4)]
    union = gather(drawn)
    assert union.dropped == ()
    n = union.batch.size
    assert weights_of(union.batch) == pytest.approx(np.full(n, 1 / n), rel=1e-12)
    particles = np.concatenate([own.batch.particles((0,)) for own in drawn])
    near = KnnLandscape.of(particles, 4).near
    landscape = KnnLandscape(near, union.batch.discounted(1.0))
    assert landscape.entropy() == pytest.approx(mepol.knn_entropy(particles, 4), abs=1e-12)


def test_the_union_tells_the_entropy_of_the_present_policy() -> None:
    """Walkers of three drifts, asked about the last: closer to the entropy of N(d, 1) than pooling them would be."""
    drawn = [walk(Drift(d), 4000, 1, seed) for seed, d in enumerate((-1.0, -0.5, 0.0))]
    union = gather(drawn)
    assert len(union.drawn) == 3
    near = KnnLandscape.of(union.batch.particles((0,)), 100).near
    truth = 0.5 * math.log(2 * math.pi * math.e)
    pooled = KnnLandscape(near).entropy()
    assert KnnLandscape(near, union.batch.discounted(1.0)).entropy() == pytest.approx(truth, abs=0.03)
    assert pooled > truth + 0.05


def test_the_gradient_over_a_union_is_that_of_finite_differences() -> None:
    drawn = [walk(Drift(d), 30, 5, seed) for seed, d in enumerate((0.0, 0.1, 0.15))]
    union, policy = gather(drawn), drawn[-1].policy
    assert isinstance(policy, Drift)
    batch = union.batch
    assert len(union.drawn) == 3
    paths = Paths.of(batch)
    landscape = KnnLandscape(KnnLandscape.of(batch.particles((0,)), 4).near, batch.discounted(1.0))
    sampled = paths.log_prob(policy).detach()

    def entropy(drift: float) -> Tensor:
        with torch.no_grad():
            policy.drift.fill_(drift)
        return Iterate.of(paths.log_prob(policy), sampled, paths, landscape).entropy

    start = entropy(0.15)
    assert start.item() == pytest.approx(landscape.entropy(), abs=1e-9)
    start.backward()
    assert policy.drift.grad is not None
    slope = (entropy(0.15 + 1e-5) - entropy(0.15 - 1e-5)).item() / 2e-5
    assert policy.drift.grad.item() == pytest.approx(slope, rel=1e-5)


def test_at_the_present_policy_there_is_no_kl() -> None:
    drawn = [walk(Drift(d), 30, 5, seed) for seed, d in enumerate((0.0, 0.2))]
    batch, policy = gather(drawn).batch, drawn[-1].policy
    paths = Paths.of(batch)
    landscape = KnnLandscape(KnnLandscape.of(batch.particles((0,)), 4).near, batch.discounted(1.0))
    sampled = paths.log_prob(policy).detach()
    assert Iterate.of(sampled, sampled, paths, landscape).kl.item() == pytest.approx(0.0, abs=1e-12)


def test_batches_that_add_too_little_are_dropped_the_oldest_first() -> None:
    """Policies four deviations apart have no path in common; one of the same drift stays."""
    drawn = [walk(Drift(d), 20, 3, seed) for seed, d in enumerate((8.0, 4.0, 0.1, 0.0))]
    union = gather(drawn)
    assert [own.policy.drift.item() for own in union.drawn] == pytest.approx([0.1, 0.0])
    assert [dropped.batches for dropped in union.dropped] == [4, 3]
    near = gather(drawn[2:])
    assert union.dropped[1].ess == pytest.approx(1 / (weights_of(near.batch) ** 2).sum(), rel=0.05)
    assert np.array_equal(union.batch.states, near.batch.states)


def test_a_batch_left_alone_is_the_batch_itself() -> None:
    far = [walk(Drift(50.0), 5, 4), walk(Drift(0.0), 5, 4, seed=1)]
    union = gather(far)
    assert union.batch is far[1].batch
    assert [dropped.batches for dropped in union.dropped] == [2]
    assert union.dropped[0].ess == pytest.approx(20, abs=0.01)


def test_a_particle_without_any_weight_leaves_numbers() -> None:
    """Half of an old batch can no longer be: its weights are faint, and entropy, KL and gradient stay finite."""
    policy = GaussianPolicy(1, 1, hidden=(8,))
    policy.initialise(np.random.default_rng(0), log_std=0.0)
    old, rng = copy.deepcopy(policy), np.random.default_rng(1)
    states, actions = rng.normal(size=(10, 41, 1)), rng.normal(size=(10, 40, 1)).astype(np.float32)
    odd = actions + 10_000 * (np.arange(10) < 5)[:, None, None].astype(np.float32)
    lengths = np.full(10, 40)
    drawn = [Drawn(Batch(states, odd, lengths), old), Drawn(Batch(states + 1, actions, lengths), policy)]
    with torch.no_grad():
        old.layers[-1].bias += 0.01  # so that the odd ones fall to nothing under the present policy
    batch = gather(drawn).batch
    weights = weights_of(batch)
    assert len(weights) == 800
    assert 0 < weights.min() < 1e-12 < weights.max()
    paths = Paths.of(batch)
    landscape = KnnLandscape(KnnLandscape.of(batch.particles((0,)), 2).near, batch.discounted(1.0))
    log_prob = paths.log_prob(policy)
    iterate = Iterate.of(log_prob, log_prob.detach(), paths, landscape)
    iterate.entropy.backward()
    assert math.isfinite(iterate.entropy.item())
    assert math.isfinite(iterate.kl.item())
    assert all(bool(torch.isfinite(p.grad).all()) for p in policy.parameters() if p.grad is not None)

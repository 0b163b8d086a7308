"""The lowest share of several entropies: by hand, by brute force, and its gradient by finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mepol.algorithm.batch import Batch, Paths
from mepol.algorithm.config import AscentConfig
from mepol.algorithm.landscape import KnnLandscape
from mepol.algorithm.loop import Iterate, climb_by_importance, importance_weights
from mepol.algorithm.policy import GaussianPolicy
from mepol.algorithm.tail import TailLandscape, tail_weights
from mepol.estimators import knn_entropy, knn_kl, weighted_knn_entropy

K, T = 3, 20


def batch_of(spreads: list[float], m: int = 2, seed: int = 0) -> Batch:
    """Walks in the plane, m for each spread of their moves."""
    rng = np.random.default_rng(seed)
    actions = np.concatenate([s * rng.standard_normal((m, T, 2)) for s in spreads]).astype(np.float32)
    states = np.concatenate([np.zeros((len(actions), 1, 2)), actions.cumsum(axis=1)], axis=1).astype(np.float64)
    return Batch(states, actions, np.full(len(actions), T))


def parts_of(batch: Batch, size: int = 2) -> list[KnnLandscape]:
    rows = range(0, len(batch.lengths), size)
    return [KnnLandscape.of(batch.part(slice(a, a + size)).particles((0, 1)), K) for a in rows]


def test_the_lowest_share_by_hand() -> None:
    values, even = [3.0, 1.0, 2.0, 4.0], [0.25] * 4
    assert tail_weights(values, even, 1.0).tolist() == even
    assert tail_weights(values, even, 0.5).tolist() == [0, 0.5, 0.5, 0]
    assert tail_weights(values, even, 0.1).tolist() == [0, 1, 0, 0]  # less than one value is that value
    # 0.375 is all of the lowest quarter and half of the next: 1/4 and 1/8, over 3/8.
    assert tail_weights(values, even, 0.375) == pytest.approx([0, 2 / 3, 1 / 3, 0])
    # Two worlds at 0.8 and 0.2: the rare one counts 0.2 / 0.35 where it is the worse, nothing where it is the better.
    assert tail_weights([3.0, 1.0], [0.8, 0.2], 0.35) == pytest.approx([0.15 / 0.35, 0.2 / 0.35])
    assert tail_weights([1.0, 3.0], [0.8, 0.2], 0.35) == pytest.approx([1, 0])


@given(
    values=st.lists(st.floats(-10, 10), min_size=1, max_size=8),
    alpha=st.floats(0.01, 1.0),
)
def test_it_is_the_mean_of_a_quantile_function_s_lower_end(values: list[float], alpha: float) -> None:
    """Against Rockafellar and Uryasev: CVaR = max over c of c - E[(c - H)+] / alpha, found at one of the values."""
    ours = tail_weights(values, np.full(len(values), 1 / len(values)), alpha) @ np.array(values)
    theirs = max(c - np.maximum(c - np.array(values), 0).mean() / alpha for c in values)
    assert ours == pytest.approx(theirs, abs=1e-9)


def test_eq_1_to_3_of_mini_batches() -> None:
    batch = batch_of([1.0, 0.1, 0.5])
    tail = TailLandscape(parts_of(batch), 2 / 3)
    pieces = np.split(batch.particles((0, 1)), 3)
    each = [knn_entropy(x, K) for x in pieces]
    assert each[1] < each[2] < each[0]
    assert tail.n == batch.size
    assert tail.entropy() == pytest.approx((each[1] + each[2]) / 2, abs=1e-12)
    weights = torch.softmax(torch.linspace(0, 2, batch.size, dtype=torch.float64), 0)
    entropy, kl = tail.weighted(weights)
    own = [w.numpy() for w in torch.chunk(weights, 3)]  # each is normalised by itself
    found = [weighted_knn_entropy(x, w, K) for x, w in zip(pieces, own, strict=True)]
    assert entropy.item() == pytest.approx(np.sort(found)[:2].mean(), abs=1e-12)
    assert kl.item() == pytest.approx(np.mean([knn_kl(x, w, K) for x, w in zip(pieces, own, strict=True)]), abs=1e-12)
    # The worth of a particle: nothing outside the lowest share, around 0 within each mini-batch.
    worth = np.split(tail.worth(), 3)
    assert not worth[0].any()
    assert [w.mean() for w in worth] == pytest.approx([0, 0, 0], abs=1e-12)
    assert np.corrcoef(worth[1], parts_of(batch)[1].worth())[0, 1] == pytest.approx(1)


def test_which_are_the_lowest_is_decided_at_each_step() -> None:
    """Weights that leave of the widest mini-batch its densest place alone make it the narrowest."""
    batch = batch_of([0.6, 0.5])
    tail = TailLandscape(parts_of(batch), 0.5)
    half = batch.size // 2
    even = torch.full((batch.size,), 1 / batch.size, dtype=torch.float64)
    crowded = torch.softmax(-5 * torch.from_numpy(parts_of(batch)[0].near.log_volume), 0)
    steep = torch.cat([crowded / 2, even[half:]])
    first, second = (weighted_knn_entropy(x, np.ones(half), K) for x in np.split(batch.particles((0, 1)), 2))
    assert second < first
    assert tail.weighted(even)[0].item() == pytest.approx(second)
    low = weighted_knn_entropy(batch.particles((0, 1))[:half], crowded.numpy(), K)
    assert low < second
    assert tail.weighted(steep)[0].item() == pytest.approx(low)


@pytest.mark.parametrize("risk", [1.0, 0.5, 0.3])
def test_the_gradient_by_finite_differences(risk: float) -> None:
    """Of the climbed objective in the policy's parameters, at a policy that is not the one that sampled."""
    batch = batch_of([1.0, 0.3, 0.6, 0.2])
    tail, paths = TailLandscape(parts_of(batch), risk), Paths.of(batch)
    policy = GaussianPolicy(2, 2, (4,)).double()
    policy.initialise(np.random.default_rng(0), log_std=-0.2)
    states, actions = paths.states.double(), paths.actions.double()
    sampled = policy.log_prob(states, actions).detach()
    with torch.no_grad():
        for p in policy.parameters():
            p.add_(0.01 * torch.from_numpy(np.random.default_rng(1).standard_normal(p.shape)))

    def value() -> torch.Tensor:
        log_ratio = policy.log_prob(states, actions) - sampled
        return tail.weighted(importance_weights(log_ratio, paths.visited))[0]

    value().backward()
    step, checked = 1e-6, 0
    for p in policy.parameters():
        for i in range(0, p.numel(), 3):
            ends = []
            for sign in (1, -1):
                with torch.no_grad():
                    p.view(-1)[i] += sign * step
                    ends.append(value().item())
                    p.view(-1)[i] -= sign * step
            assert p.grad.view(-1)[i].item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4, abs=1e-7)
            checked += 1
    assert checked > 8


def test_a_climb_lifts_the_lowest_and_stays_inside_the_trust_region_of_all() -> None:
    batch = batch_of([1.0, 0.2])
    tail = TailLandscape(parts_of(batch), 0.5)
    policy = GaussianPolicy(2, 2, (8,))
    policy.initialise(np.random.default_rng(0), log_std=-0.2)
    config = AscentConfig(k=K, learning_rate=1e-3, max_steps=5, kl_threshold=0.2)
    optimiser = torch.optim.Adam(policy.parameters(), lr=1e-3, maximize=True, fused=True)
    steps = climb_by_importance(policy, optimiser, batch, tail, config)
    kept = [step for step in steps if step.accepted]
    assert kept[-1].entropy > tail.entropy()
    assert max(step.kl for step in kept) <= 0.2


def test_a_mini_batch_that_loses_all_weight_is_outside() -> None:
    batch = batch_of([1.0, 0.2])
    tail, paths = TailLandscape(parts_of(batch), 0.5), Paths.of(batch)
    log_prob = torch.zeros(batch.size)
    log_prob[batch.size // 2 :: T] = -2000.0  # at the first step of each trajectory of the second
    assert not Iterate.of(log_prob, torch.zeros(batch.size), paths, tail).is_inside(AscentConfig())

"""Correlated action noise: an exact likelihood, the same distribution of each action, and rho = 0 as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from mepol.algorithm import AscentConfig, Batch, GaussianPolicy, KnnLandscape
from mepol.algorithm.batch import Paths
from mepol.algorithm.config import CriticConfig
from mepol.algorithm.rules import RULES
from mepol.errors import PolicyFileError
from mepol.runs.policies import load_policy, policy_bytes, save_policy

RHO = 0.7


def correlated(rho: float = RHO, state_dim: int = 2, action_dim: int = 2) -> GaussianPolicy:
    policy = GaussianPolicy(state_dim, action_dim, (8,), rho)
    policy.initialise(np.random.default_rng(0), log_std=-0.4)
    with torch.no_grad():
        policy.log_std += torch.tensor([0.1 * i for i in range(action_dim)])
    return policy


def walks(policy: GaussianPolicy, lengths: list[int], seed: int = 3) -> Batch:
    """Walks whose actions the policy drew, with its noise carried along."""
    rng, m, horizon = np.random.default_rng(seed), len(lengths), max(lengths)
    states = np.zeros((m, horizon + 1, policy.widths[0]))
    actions = np.zeros((m, horizon, policy.widths[-1]), dtype=np.float32)
    states[:, 0] = rng.uniform(-1, 1, (m, policy.widths[0]))
    actor = policy.begin(m, rng)
    for t in range(horizon):
        actions[:, t] = actor.act(states[:, t], rng)
        states[:, t + 1] = 0.8 * states[:, t] + 0.2 * np.resize(actions[:, t].T, states[:, t].T.shape).T
    return Batch(states, actions, np.array(lengths))


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.95])
def test_the_likelihood_of_a_trajectory_is_that_of_a_multivariate_normal(rho: float) -> None:
    """All actions of a trajectory together are normal: mean mu(s_t), covariance sigma_i^2 rho^|t - u| for action i."""
    policy = correlated(rho).double()
    batch = walks(correlated(rho), [12, 5, 1])
    paths = Paths.of(batch)
    states, actions = paths.states.double(), paths.actions.double()
    found = policy.log_prob_along(states, actions, paths.first).detach().numpy()
    mean, std = policy.mean(states).detach().numpy(), np.exp(policy.log_std.detach().numpy())
    start = 0
    for length in batch.lengths:
        rows = slice(start, start + length)
        steps = np.arange(length)
        toeplitz = rho ** np.abs(steps[:, None] - steps) if rho else np.eye(length)
        truth = sum(
            multivariate_normal(mean[rows, i], std[i] ** 2 * toeplitz).logpdf(actions[rows, i].numpy())
            for i in range(2)
        )
        assert found[rows].sum() == pytest.approx(truth, abs=1e-8)
        start += length


def test_some_rows_give_what_all_rows_give() -> None:
    policy = correlated()
    paths = Paths.of(walks(policy, [40, 7, 30]))
    whole = paths.log_prob(policy)
    for part in range(3):
        torch.testing.assert_close(paths.log_prob(policy, slice(part, None, 3)), whole[part::3], rtol=1e-5, atol=1e-5)


def test_the_gradient_is_that_of_finite_differences() -> None:
    policy = correlated().double()
    paths = Paths.of(walks(correlated(), [15, 9]))
    states, actions = paths.states.double(), paths.actions.double()

    def total() -> torch.Tensor:
        return policy.log_prob_along(states, actions, paths.first).sum()

    total().backward()
    for parameter in policy.parameters():
        flat = parameter.data.view(-1)
        for i in range(0, len(flat), max(1, len(flat) // 5)):
            kept, step = flat[i].item(), 1e-6
            flat[i] = kept + step
            up = total().item()
            flat[i] = kept - step
            down = total().item()
            flat[i] = kept
            assert parameter.grad.view(-1)[i].item() == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-6)


def test_each_action_alone_is_distributed_as_before_and_neighbours_are_correlated() -> None:
    policy = correlated(0.8)
    rng = np.random.default_rng(1)
    m, steps = 20_000, 6
    actor, obs = policy.begin(m, rng), np.zeros((m, 2))
    drawn = np.stack([actor.act(obs, rng) for _ in range(steps)])  # (T, M, A)
    with torch.no_grad():
        mean = policy.mean(torch.zeros(2)).numpy()
    noise = (drawn - mean) / np.exp(policy.log_std.detach().numpy())
    for t in range(steps):
        assert noise[t].mean() == pytest.approx(0, abs=0.03)
        assert noise[t].std() == pytest.approx(1, abs=0.03)
        assert np.mean(noise[0] * noise[t]) == pytest.approx(0.8**t, abs=0.03)
    assert np.mean(noise[1, :, 0] * noise[2, :, 1]) == pytest.approx(0, abs=0.03)  # actions apart from each other


def test_without_correlation_nothing_changes() -> None:
    plain = correlated(0.0)
    paths = Paths.of(walks(plain, [20, 11]))
    assert torch.equal(paths.log_prob(plain), plain.log_prob(paths.states, paths.actions))
    assert plain.begin(4, np.random.default_rng(0)) is plain
    assert b"correlation" not in policy_bytes(plain)


@pytest.mark.parametrize("rule", RULES)
def test_both_rules_climb(rule: str) -> None:
    policy = correlated()
    batch = walks(policy, [60] * 6)
    landscape = KnnLandscape.of(batch.particles((0, 1)), 4)
    config = AscentConfig(learning_rate=1e-5, max_steps=4, rule=rule)
    ascent = RULES[rule].make(policy, config, CriticConfig(minibatch=100), 2, np.random.default_rng(0))
    steps = ascent.climb(batch, landscape)
    assert [step for step in steps if step.accepted]
    assert steps[0].kl != 0.0
    if rule == "importance":
        before, _ = landscape.weighted(torch.full((landscape.n,), 1 / landscape.n, dtype=torch.float64))
        assert steps[-1].entropy > before.item()


def test_a_file_carries_the_correlation(tmp_path: Path) -> None:
    policy = correlated(0.75)
    save_policy(policy, tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path / "policy.safetensors")
    assert loaded.correlation == 0.75
    assert policy_bytes(loaded) == policy_bytes(policy)
    for bad in ("1.0", "-0.1", "nan", "x"):
        (tmp_path / "bad.safetensors").write_bytes(policy_bytes(correlated(0.0), {"correlation": bad}))
        with pytest.raises(PolicyFileError, match=r"correlation|header"):
            load_policy(tmp_path / "bad.safetensors")

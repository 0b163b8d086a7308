"""The ascent by advantages: its sums, its gradient, its critic, and that it is interrupted and repeated exactly."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mepol.algorithm import AscentConfig, Critic, CriticConfig, GaussianPolicy, Iterate, KnnLandscape, Paths
from mepol.algorithm.advantage import _judged, _of_order, _surrogate, climb_by_advantage, joint_optimiser
from mepol.algorithm.critic import advantages
from mepol.envs.make import make_env
from mepol.errors import ConfigError
from mepol.exploration.drive import explore, resume
from mepol.runs.machine import MachineConfig
from mepol.runs.policies import policy_bytes
from mepol.runs.streams import Stream, stream
from mepol.sampling.collect import collect
from mepol.settings import with_settings

FAST = {"rule": "advantage", "learning_rate": 1e-3, "max_steps": 3, "minibatch": 60, "critic_steps": 10}


def make_critic(state_dim: int = 2, **changes: object) -> Critic:
    return Critic(state_dim, CriticConfig(**changes), np.random.default_rng(0))


@pytest.fixture
def walker(make_policy: Callable) -> GaussianPolicy:
    """A policy that wanders through the rooms: its means are near zero, as the zero-mean start leaves them."""
    policy = make_policy(hidden=(32, 32), log_std=-1.5)
    with torch.no_grad():
        policy.layers[-1].weight.mul_(0.01)
        policy.layers[-1].bias.zero_()
    return policy


# --- advantages ---------------------------------------------------------------------------------------------------


@given(
    st.integers(0, 10**6),
    st.floats(0, 1),
    st.floats(0, 1),
    st.lists(st.integers(1, 7), min_size=1, max_size=4),
)
def test_advantages_are_discounted_sums_of_surprises(seed: int, gamma: float, trace: float, lengths: list[int]) -> None:
    rng, m, t = np.random.default_rng(seed), len(lengths), 7
    rewards, values = rng.standard_normal((m, t)), rng.standard_normal((m, t + 1))
    config = CriticConfig(discount=gamma, trace=trace)
    found = advantages(rewards, values, np.array(lengths), config)
    for i, length in enumerate(lengths):
        for start in range(t):
            truth = sum(
                (gamma * trace) ** (s - start) * (rewards[i, s] + gamma * values[i, s + 1] - values[i, s])
                for s in range(start, length)
            )
            assert found[i, start] == pytest.approx(truth, abs=1e-9)


def test_without_critic_and_discount_they_are_rewards_to_go() -> None:
    rewards = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    found = advantages(rewards, np.zeros((2, 4)), np.array([3, 2]), CriticConfig(discount=1.0, trace=1.0))
    assert found.tolist() == [[6.0, 5.0, 3.0], [9.0, 5.0, 0.0]]


def test_a_perfect_critic_leaves_no_advantage() -> None:
    rewards, gamma = np.random.default_rng(1).standard_normal((3, 20)), 0.9
    values = np.zeros((3, 21))
    for t in reversed(range(20)):
        values[:, t] = rewards[:, t] + gamma * values[:, t + 1]
    found = advantages(rewards, values, np.full(3, 20), CriticConfig(discount=gamma))
    assert np.abs(found).max() < 1e-12


# --- gradient -----------------------------------------------------------------------------------------------------


def test_its_gradient_points_where_that_of_equation_2_does(walker: GaussianPolicy) -> None:
    policy = walker
    batch = collect(policy, make_env("mepol/GridWorld-v0", 16), 150, seed=stream(0, Stream.BATCH))
    landscape, paths = KnnLandscape.of(batch.particles((0, 1)), 8), Paths.of(batch)
    sampled = policy.log_prob(paths.states, paths.actions).detach()

    def gradient(objective: torch.Tensor) -> torch.Tensor:
        return torch.cat([g.flatten() for g in torch.autograd.grad(objective, list(policy.parameters()))])

    paper = gradient(Iterate.of(policy.log_prob(paths.states, paths.actions), sampled, paths, landscape).entropy)
    critic = make_critic(discount=1.0, trace=1.0)
    critic.watch(paths.states)
    gain, _ = _judged(batch, landscape.worth(), critic, 1.0)
    ours = gradient(_surrogate(policy.log_prob(paths.states, paths.actions) - sampled, gain, 0.2))
    assert torch.cosine_similarity(paper, ours, dim=0) > 0.9


@pytest.mark.parametrize(("ratio", "gain", "slope"), [(1.5, 1.0, 0.0), (1.5, -1.0, -1.5), (0.5, -1.0, 0.0), (1, 1, 1)])
def test_a_ratio_beyond_the_clip_brings_no_gain(ratio: float, gain: float, slope: float) -> None:
    log_ratio = torch.log(torch.tensor([float(ratio)])).requires_grad_()
    _surrogate(log_ratio, torch.tensor([float(gain)]), 0.2).backward()
    assert log_ratio.grad.item() == pytest.approx(slope)


@given(st.integers(0, 10**6), st.floats(0.05, 0.95))
def test_worth_of_an_order_is_the_gradient_of_renyis_entropy(seed: int, alpha: float) -> None:
    """Five places of masses p: moving mass along f changes the entropy as f and the worth vary together."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(5, 3.0)) * 0.9 + 0.02
    worth = _of_order(alpha, -np.log(p))

    def entropy(q: np.ndarray) -> float:
        return float(np.log((q**alpha).sum()) / (1 - alpha))

    slopes, together = [], []
    for f in rng.standard_normal((4, 5)):
        step = 1e-5 * p * (f - p @ f)
        slopes.append((entropy(p + step) - entropy(p - step)) / 2e-5)
        together.append(p @ ((f - p @ f) * worth))
    factor = np.dot(slopes, together) / np.dot(together, together)
    assert factor > 0
    np.testing.assert_allclose(slopes, factor * np.array(together), rtol=1e-4, atol=1e-7)


def test_order_one_is_the_papers() -> None:
    worth = np.array([1.0, -2.0, 0.5])
    assert _of_order(1.0, worth) is worth


# --- critic -------------------------------------------------------------------------------------------------------


def test_the_critic_starts_at_zero_and_learns_a_known_value(make_policy: Callable) -> None:
    critic = make_critic(critic_steps=600)
    states = torch.from_numpy(np.random.default_rng(2).uniform(-6, 6, (4000, 2))).float()
    critic.watch(states)
    assert critic(states).abs().max() == 0.0
    returns = torch.sin(states[:, 0]) + 0.5 * states[:, 1]
    critic.fit(states, returns, joint_optimiser(make_policy(), critic, AscentConfig()))
    with torch.no_grad():
        left = (critic(states) - returns).var() / returns.var()
    assert left < 0.1


@pytest.mark.parametrize(("units", "low", "high"), [("relu", 10.0, 40.0), ("tanh", 0.5, 3.0)])
def test_only_a_critic_of_relu_goes_on_beyond_what_it_knows(units: str, low: float, high: float) -> None:
    """Taught V = x between -1 and 1, asked at 20."""
    critic = make_critic(1, critic_steps=400, critic_units=units)
    states = torch.linspace(-1, 1, 2000)[:, None]
    critic.watch(states)
    critic.fit(states, states[:, 0], torch.optim.Adam(critic.parameters(), 1e-3))
    assert low < critic(torch.tensor([[20.0]])).item() < high


def test_optimism_is_the_mean_of_what_the_critic_learns(walker: GaussianPolicy) -> None:
    batch = collect(walker, make_env("mepol/GridWorld-v0", 4), 50, seed=stream(0, Stream.BATCH))
    critic = make_critic(trace=0.0, optimism=3.0)  # it starts at zero: a return is the reward
    critic.watch(Paths.of(batch).states)
    _, returns = _judged(batch, np.random.default_rng(0).standard_normal(200), critic, 1.0)
    assert returns.mean().item() == pytest.approx(3.0, abs=1e-5)
    assert returns.std(correction=0).item() == pytest.approx(1.0, abs=1e-5)


def test_optimism_is_all_one_to_a_critic_that_knows_it() -> None:
    rng, config = np.random.default_rng(3), CriticConfig(discount=0.9, trace=0.8)
    rewards, values = rng.standard_normal((3, 20)), rng.standard_normal((3, 21))
    plain = advantages(rewards, values, np.full(3, 20), config)
    raised = advantages(rewards + 3, values + 3 / (1 - 0.9), np.full(3, 20), config)
    np.testing.assert_allclose(raised, plain, atol=1e-12)


def test_standardisation_follows_the_states_gently_after_the_first_batch() -> None:
    critic = make_critic(1)
    critic.watch(torch.tensor([[1.0], [3.0]]))
    assert (critic.shift.item(), critic.scale.item()) == (2.0, 1.0)
    critic.watch(torch.tensor([[10.0], [14.0]]))
    assert critic.shift.item() == pytest.approx(0.8 * 2 + 0.2 * 12)
    assert critic.scale.item() == pytest.approx(0.8 * 1 + 0.2 * 2)


def test_fitting_the_critic_leaves_the_policy_and_climbing_leaves_the_critic(walker: GaussianPolicy) -> None:
    policy, critic = walker, make_critic()
    optimiser = joint_optimiser(policy, critic, AscentConfig())
    batch = collect(policy, make_env("mepol/GridWorld-v0", 4), 100, seed=stream(0, Stream.BATCH))
    landscape = KnnLandscape.of(batch.particles((0, 1)), 4)
    before, old = policy_bytes(policy), copy.deepcopy(critic)
    states = Paths.of(batch).states
    critic.watch(states)
    critic.fit(states, states[:, 0], optimiser)
    assert policy_bytes(policy) == before
    assert not torch.equal(critic.layers[0].weight, old.layers[0].weight)
    fitted = copy.deepcopy(critic)
    wild = AscentConfig(rule="advantage", learning_rate=10.0, policy_kl=1e-9, max_backtracks=2)
    steps = climb_by_advantage(policy, critic, optimiser, batch, landscape, wild)
    assert [s.accepted for s in steps] == [False, False, False]  # each pass broke the bound and was undone
    assert policy_bytes(policy) == before
    assert not torch.equal(critic.layers[0].weight, fitted.layers[0].weight)  # it still learns from the batch


def test_the_steps_of_policy_and_critic_are_damped(walker: GaussianPolicy) -> None:
    """The first step of Adam: rate g / (|g| + damping), uphill for one and downhill for the other."""
    critic, rate = make_critic(critic_rate=0.02), 0.001
    optimiser = joint_optimiser(walker, critic, AscentConfig(rule="advantage", learning_rate=rate, damping=0.01))
    for parameter in (*walker.parameters(), *critic.parameters()):
        parameter.grad = torch.full_like(parameter, 0.03)
    moved = {p: p.detach().clone() for p in (walker.log_std, critic.layers[0].bias)}
    optimiser.step()
    for (parameter, before), change in zip(moved.items(), (rate * 0.75, -0.02 * 0.75), strict=True):
        torch.testing.assert_close(parameter.detach() - before, torch.full_like(before, change), rtol=1e-4, atol=1e-7)


# --- runs ---------------------------------------------------------------------------------------------------------


def test_a_run_by_advantages_learns_and_keeps_its_bounds(tiny: Callable, tmp_path: Path) -> None:
    config = with_settings(tiny(horizon=200, trajectories=8, epochs=12), FAST | {"policy_kl": 0.05})
    run = explore(config, tmp_path / "run")
    rows = run.rows()
    assert rows[-1].index > rows[0].index + 0.1
    assert all(row.kl <= config.ascent.kl_threshold for row in rows[:-1])


def test_an_interrupted_run_by_advantages_ends_in_the_same_bits(tiny: Callable, tmp_path: Path) -> None:
    config = with_settings(tiny(epochs=6), FAST)
    whole = explore(config, tmp_path / "whole")
    explore(dataclasses.replace(config, epochs=3), tmp_path / "halves")
    halves = resume(tmp_path / "halves", length=6)
    assert whole.policy_path().read_bytes() == halves.policy_path().read_bytes()


def test_threads_change_no_digit_of_a_run_by_advantages(tiny: Callable, tmp_path: Path) -> None:
    base = with_settings(tiny(horizon=300, trajectories=10, epochs=2), FAST | {"minibatch": 1000, "hidden": (128, 96)})
    runs = [explore(dataclasses.replace(base, machine=MachineConfig(threads=n)), tmp_path / str(n)) for n in (1, 2)]
    assert runs[0].policy_path().read_bytes() == runs[1].policy_path().read_bytes()


def test_advantages_need_adam() -> None:
    with pytest.raises(ConfigError, match="adam"):
        AscentConfig(rule="advantage", optimiser="sgd")

"""The categorical policy: its probabilities, its gradients, its draws, its start, and that both rules climb by it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch.distributions import Categorical

from mepol.algorithm import RULES, AscentConfig, Batch, CategoricalPolicy, CriticConfig, KnnLandscape, mepol
from mepol.algorithm.policy import ROWS
from mepol.estimators import knn_entropy


def drawn_policy(choices: tuple[int, ...], hidden: tuple[int, ...] = (8, 8), seed: int = 0) -> CategoricalPolicy:
    policy = CategoricalPolicy(3, choices, hidden)
    policy.draw_weights(np.random.default_rng(seed))
    with torch.no_grad():
        policy.layers[-1].weight *= 3.0  # far from uniform
    return policy


def some(choices: tuple[int, ...], n: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """(n, 3) states, (n, A) actions."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal((n, 3))), torch.from_numpy(
        rng.integers(choices, size=(n, len(choices)))
    )


@pytest.mark.parametrize("choices", [(2,), (5,), (3, 2), (2, 2, 2, 2)])
def test_log_prob_is_that_of_independent_categoricals(choices: tuple[int, ...]) -> None:
    policy = drawn_policy(choices).double()
    states, actions = some(choices, 50)
    logits = policy.output(states).split(list(choices), -1)
    truth = sum(Categorical(logits=part).log_prob(actions[:, i]) for i, part in enumerate(logits))
    torch.testing.assert_close(policy.log_prob(states, actions.double()), truth)
    every = torch.tensor(list(itertools.product(*map(range, choices))), dtype=torch.float64)
    total = policy.log_prob(states[:1].expand(len(every), -1), every).exp().sum()
    torch.testing.assert_close(total, torch.ones((), dtype=torch.float64))


def test_gradients_are_those_of_finite_differences() -> None:
    policy = drawn_policy((3, 2), hidden=(4,)).double()
    states, actions = some((3, 2), 5)
    weights = torch.linspace(-1, 2, 5, dtype=torch.float64)
    parameters = list(policy.parameters())
    found = torch.autograd.grad(policy.log_prob(states, actions) @ weights, parameters)
    for parameter, gradient in zip(parameters, found, strict=True):
        flat, truth = parameter.data.view(-1), torch.empty_like(gradient).view(-1)
        for i in range(len(flat)):
            ends = []
            for step in (1e-6, -2e-6):
                flat[i] += step
                ends.append(float((policy.log_prob(states, actions) @ weights).detach()))
            flat[i] += 1e-6
            truth[i] = (ends[0] - ends[1]) / 2e-6
        torch.testing.assert_close(gradient.view(-1), truth, rtol=1e-6, atol=1e-7)


def test_blocks_of_rows_give_what_one_pass_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = drawn_policy((3, 2)).double()
    states, actions = some((3, 2), ROWS + 700)
    found = policy.log_prob(states, actions).detach()
    monkeypatch.setattr("mepol.algorithm.policy.ROWS", 10 * ROWS)
    torch.testing.assert_close(found, policy.log_prob(states, actions).detach(), rtol=1e-10, atol=1e-10)


def test_actions_are_drawn_as_often_as_they_are_likely() -> None:
    choices, n = (3, 2), 40_000
    policy = drawn_policy(choices)
    state = np.array([0.3, -1.2, 0.8])
    actions = policy.act(np.tile(state, (n, 1)), np.random.default_rng(2))
    assert actions.shape == (n, 2)
    assert actions.dtype == np.float32
    for pair in itertools.product(range(3), range(2)):
        with torch.no_grad():
            likely = policy.log_prob(torch.tensor(state).float(), torch.tensor(pair).float()).exp().item()
        share = float((actions == np.array(pair)).all(axis=1).mean())
        assert abs(share - likely) < 4.5 * np.sqrt(likely * (1 - likely) / n)


def test_the_draw_depends_on_the_generator_alone_and_one_row_is_a_row() -> None:
    policy = drawn_policy((4, 3))
    obs = np.random.default_rng(0).standard_normal((6, 3))
    first = policy.act(obs, np.random.default_rng(5))
    torch.manual_seed(99)
    np.testing.assert_array_equal(policy.act(obs, np.random.default_rng(5)), first)
    assert policy.act(obs[0], np.random.default_rng(5)).shape == (2,)


def test_a_choice_without_mass_is_never_taken() -> None:
    policy = CategoricalPolicy(3, (4,), ())
    policy.level()
    with torch.no_grad():
        policy.layers[-1].bias.copy_(torch.tensor([-3000.0, 5.0, -3000.0, -3000.0]))
    actions = policy.responder()(
        np.zeros((3, 3)), np.array([[0.0], [0.5], [np.nextafter(np.float32(1), np.float32(0))]])
    )
    assert actions.tolist() == [[1.0], [1.0], [1.0]]


def test_without_noise_the_likeliest_choice_is_taken() -> None:
    policy = drawn_policy((5, 3))
    obs = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    with torch.no_grad():
        truth = np.stack([part.argmax(-1) for part in policy.logits(torch.from_numpy(obs))], axis=1)
    np.testing.assert_array_equal(policy.act(obs, np.random.default_rng(0), deterministic=True), truth)
    assert len(np.unique(truth[:, 0])) > 1


def test_a_policy_without_numbers_gives_none() -> None:
    policy = drawn_policy((3, 2))
    obs = np.zeros((3, 3))
    obs[1] = np.nan
    actions = policy.act(obs, np.random.default_rng(0))
    assert np.isnan(actions).all(axis=1).tolist() == [False, True, False]


def test_a_mirrored_start_and_a_level_one_are_uniform() -> None:
    states = torch.from_numpy(np.random.default_rng(0).normal(0, 10, (20, 3)).astype(np.float32))
    actions = torch.tensor([[4.0, 1.0]]).expand(20, 2)
    for start in ("mirror", "level"):
        policy = drawn_policy((5, 2))
        getattr(policy, start)()
        truth = torch.full((20,), -np.log(10.0), dtype=torch.float32)
        torch.testing.assert_close(policy.log_prob(states, actions).detach(), truth, rtol=1e-6, atol=1e-6)


# --- a corridor -----------------------------------------------------------------------------------------------------


def corridor(policy: CategoricalPolicy, m: int, horizon: int, seed: int) -> Batch:
    """Walks between walls at +-3: left, stay or right by 0.1, and a little noise. States are (position / 3, 0, 0)."""
    rng = np.random.default_rng(seed)
    states, actions = np.zeros((m, horizon + 1, 3)), np.zeros((m, horizon, 1), dtype=np.float32)
    states[:, 0, 0] = rng.uniform(-0.05, 0.05, m)
    for t in range(horizon):
        actions[:, t] = policy.act(states[:, t], rng)
        moved = states[:, t, 0] * 3 + 0.1 * (actions[:, t, 0] - 1) + rng.normal(0, 0.02, m)
        moved = np.where(np.abs(moved) > 3, np.sign(moved) * (6 - np.abs(moved)), moved)  # walls throw back
        states[:, t + 1, 0] = moved / 3
    return Batch(states, actions, np.full(m, horizon))


@pytest.mark.parametrize("rule", ["importance", "advantage"])
def test_both_rules_raise_the_entropy_of_a_corridor(rule: str) -> None:
    rng = np.random.default_rng(0)
    policy = CategoricalPolicy(3, (3,), (32, 32))
    policy.draw_weights(rng)
    policy.mirror()
    config = AscentConfig(k=4, rule=rule, learning_rate=3e-3, max_steps=8, kl_threshold=0.5)
    ascent = RULES[rule].make(policy, config, CriticConfig(minibatch=300, critic_steps=20), 3, rng)
    epochs = mepol(
        lambda epoch: corridor(policy, 20, 60, epoch),
        lambda batch: KnnLandscape.of(batch.particles((0,)), config.k),
        ascent.climb,
    )
    fresh = [corridor(policy, 50, 60, 1000).particles((0,))]
    done = list(itertools.islice(epochs, 10))
    fresh.append(corridor(policy, 50, 60, 1000).particles((0,)))
    before, after = (knn_entropy(particles, 4) for particles in fresh)
    assert all(epoch.accepted for epoch in done[:5])
    assert after > before + 0.2
    assert after < np.log(2.0)  # of the whole corridor

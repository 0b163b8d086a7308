"""`policy.predict` as Stable-Baselines3's users call it."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

from mepol.algorithm.categorical import CategoricalPolicy
from mepol.algorithm.policy import GaussianPolicy
from mepol.errors import CollapseError, PolicyFileError


def policy_of(correlation=0.0):
    policy = GaussianPolicy(3, 1, (8,), correlation)
    policy.initialise(np.random.default_rng(0), log_std=-0.5)
    return policy


OBS = np.random.default_rng(1).normal(size=(6, 3))


def test_one_or_many_observations_with_and_without_noise():
    policy = policy_of()
    mean = policy.act(OBS, np.random.default_rng(0), deterministic=True)
    actions, state = policy.predict(OBS, deterministic=True)
    assert state is None
    np.testing.assert_array_equal(actions, mean)
    one, _ = policy.predict(OBS[2], deterministic=True)
    assert one.shape == (1,)
    np.testing.assert_allclose(one, mean[2], atol=1e-6)
    drawn, state = policy.predict(OBS, rng=np.random.default_rng(7))
    assert state is None
    np.testing.assert_array_equal(drawn, policy.act(OBS, np.random.default_rng(7)))


def test_noise_is_of_the_policy_s_own_generator_unless_one_is_given():
    first, second, other = policy_of(), policy_of(), policy_of()
    other.rng = np.random.default_rng(5)
    a, b, c = ([p.predict(OBS)[0] for _ in range(2)] for p in (first, second, other))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a[0], a[1])
    np.testing.assert_array_equal(c[0], policy_of().act(OBS, np.random.default_rng(5)))


@pytest.mark.parametrize("starts", [None, np.zeros(6, dtype=bool)])
def test_the_state_carries_correlated_noise_as_in_training(starts):
    policy, ours, theirs = policy_of(0.9), np.random.default_rng(3), np.random.default_rng(3)
    carrying, state = policy.begin(6, ours), None
    for t in range(5):
        actions, state = policy.predict(OBS + t, state, starts, rng=theirs)
        np.testing.assert_array_equal(actions, carrying.act(OBS + t, ours))


def test_a_new_episode_begins_with_new_noise():
    policy, rng = policy_of(0.9), np.random.default_rng(0)
    starts, pairs = np.arange(4000) % 2 == 0, []
    _, state = policy.predict(np.zeros((4000, 3)), rng=rng)
    before = state[0]
    _, state = policy.predict(np.zeros((4000, 3)), state, starts, rng=rng)
    pairs = [np.corrcoef(before[rows, 0], state[0][rows, 0])[0, 1] for rows in (starts, ~starts)]
    assert abs(pairs[0]) < 0.1  # 2000 pairs: deviation 0.022
    assert pairs[1] == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_stable_baselines3_evaluates_it_as_one_of_its_models(correlation):
    policy = policy_of(correlation)
    env = DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")] * 2)
    env.seed(0)
    returns, lengths = evaluate_policy(policy, env, 4, deterministic=False, return_episode_rewards=True, warn=False)
    assert lengths == [200] * 4
    assert max(returns) < 0


# --- choices ------------------------------------------------------------------------------------------------------


def choosing(choices, state_dim=4):
    policy = CategoricalPolicy(state_dim, choices, (8,))
    policy.draw_weights(np.random.default_rng(0))
    return policy


@pytest.mark.parametrize(("choices", "one", "many"), [((3,), (), (6,)), ((3, 2), (2,), (6, 2))])
def test_choices_are_whole_numbers_as_their_space_holds_them(choices, one, many):
    policy, obs = choosing(choices), np.random.default_rng(1).normal(size=(6, 4))
    space = gymnasium.spaces.Discrete(3) if len(choices) == 1 else gymnasium.spaces.MultiDiscrete(choices)
    for deterministic in (True, False):
        alone, state = policy.predict(obs[0], deterministic=deterministic, rng=np.random.default_rng(3))
        assert (alone.shape, alone.dtype, state) == (one, np.int64, None)
        assert space.contains(alone)
        batch, _ = policy.predict(obs, deterministic=deterministic, rng=np.random.default_rng(3))
        truth = policy.act(obs, np.random.default_rng(3), deterministic)
        assert batch.shape == many
        np.testing.assert_array_equal(batch.reshape(6, -1), truth)


def test_stable_baselines3_evaluates_choices_too():
    env = DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * 2)
    env.seed(0)
    returns, lengths = evaluate_policy(choosing((2,)), env, 4, return_episode_rewards=True, warn=False)
    assert returns == lengths  # a pole pays 1 per step
    assert min(lengths) > 5


def test_what_no_choice_can_be_made_of_is_one_sentence():
    with pytest.raises(PolicyFileError, match=r"the policy reads 4 numbers, and was given \(3,\)"):
        choosing((2,)).predict(np.zeros((5, 3)))
    with pytest.raises(PolicyFileError, match=r"the policy reads 4 numbers, and was given \(3,\)"):
        GaussianPolicy(4, 2, (8,)).predict(np.zeros(3))
    with pytest.raises(CollapseError, match="logits are NaN or infinite"):
        choosing((2,)).predict(np.full(4, np.nan))

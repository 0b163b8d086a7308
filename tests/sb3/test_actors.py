"""An exploration policy and the learner that starts from it are the same policy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from sb3_contrib import TRPO
from stable_baselines3 import PPO, SAC

from mepol.envs.gridworld import GridWorldVectorEnv
from mepol.errors import PolicyFileError
from mepol.finetuning.goals import near
from mepol.finetuning.reach import ReachVectorEnv
from mepol.sampling.actors import check_fit
from mepol.sb3.actors import architecture, in_unit_box, read_actor, read_squashed, write_actor
from mepol.sb3.adapter import BatchedVecEnv
from mepol.sb3.rollout import fill_replay


@pytest.fixture
def env():
    return BatchedVecEnv(ReachVectorEnv(GridWorldVectorEnv(2), near(-5, -5, 0.5), 6))


def scaled_policy(make_policy, hidden):
    policy = make_policy(2, 2, hidden, seed=3, log_std=-1.5)
    policy.shift.copy_(torch.tensor([1.0, -2.0]))
    policy.scale.copy_(torch.tensor([6.0, 0.5]))
    with torch.no_grad():
        policy.log_std.copy_(torch.tensor([-1.5, -0.3]))
    return policy


@pytest.mark.parametrize("learner", [TRPO, PPO])
@pytest.mark.parametrize("hidden", [(16, 12), (8,)])
def test_the_actor_has_the_policys_action_distribution(env, make_policy, learner, hidden):
    policy = scaled_policy(make_policy, hidden)
    model = learner("MlpPolicy", env, n_steps=4, batch_size=8, policy_kwargs=architecture(hidden), device="cpu")
    write_actor(model.policy, policy)
    states = torch.from_numpy(np.random.default_rng(0).uniform(-6, 6, (500, 2)).astype(np.float32))
    actions = policy.mean(states) + 0.3
    with torch.no_grad():
        given = model.policy.get_distribution(states).distribution
        torch.testing.assert_close(given.mean, policy.mean(states), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(given.stddev, policy.log_std.exp().expand(500, 2), rtol=1e-6, atol=0)
        log_prob = model.policy.get_distribution(states).log_prob(actions)
        torch.testing.assert_close(log_prob, policy.log_prob(states, actions), rtol=1e-4, atol=1e-4)
        back = read_actor(model.policy)
        torch.testing.assert_close(back.mean(states), given.mean)
        torch.testing.assert_close(back.log_std, policy.log_std)


def test_without_scaling_the_weights_are_equal_to_the_bit(env, make_policy):
    policy = make_policy(2, 2, (16, 16))
    model = TRPO("MlpPolicy", env, n_steps=4, batch_size=8, policy_kwargs=architecture((16, 16)), device="cpu")
    write_actor(model.policy, policy)
    back = read_actor(model.policy)
    assert all(torch.equal(a, b) for a, b in zip(back.state_dict().values(), policy.state_dict().values(), strict=True))


def test_the_replay_buffer_holds_the_exploration_policys_own_steps(env, make_policy):
    policy = make_policy(2, 2, log_std=-2.0)
    model = SAC("MlpPolicy", env, buffer_size=100, device="cpu")
    fill_replay(
        model.replay_buffer, env, in_unit_box(policy, 2, 2, env.action_space, np.random.SeedSequence(1)), 10, [1, 2]
    )
    replay = model.replay_buffer
    assert replay.size() == 10
    actions = 0.2 * replay.actions[:10]
    stays = np.abs(replay.next_observations[:10] - replay.observations[:10]).max(axis=-1) == 0
    moved = np.abs(replay.next_observations[:10] - replay.observations[:10] - actions).max(axis=-1) < 1e-5
    assert (moved | stays).all()
    assert moved.any()
    again = SAC("MlpPolicy", env, buffer_size=100, device="cpu").replay_buffer
    fill_replay(again, env, in_unit_box(policy, 2, 2, env.action_space, np.random.SeedSequence(1)), 10, [1, 2])
    assert np.array_equal(again.observations, replay.observations)


def test_a_policy_of_another_environment_is_refused(make_policy):
    with pytest.raises(PolicyFileError, match="3 state coordinates to 2 actions, and grid-goal1 has 2 and 2"):
        check_fit(make_policy(3, 2), 2, Box(-1, 1, (2,)), "grid-goal1")


@pytest.mark.parametrize("hidden", [(16, 12), ()])
def test_the_squashed_policy_acts_as_sacs_own_actor(env, hidden):
    torch.manual_seed(0)
    model = SAC("MlpPolicy", env, policy_kwargs={"net_arch": list(hidden)}, device="cpu")
    with torch.no_grad():
        model.actor.log_std.bias.copy_(torch.tensor([1.5, -25.0]))  # so that both ends of its range are met
        model.actor.log_std.weight.mul_(3)
    before = torch.get_rng_state()
    ours = read_squashed(model.actor, env.action_space)
    assert torch.equal(torch.get_rng_state(), before)
    assert (ours.widths, ours.skills) == ((2, *hidden, 2), 0)
    obs = np.random.default_rng(0).uniform(-6, 6, (300, 2)).astype(np.float32)
    mean, log_std, _ = model.actor.get_action_dist_params(torch.from_numpy(obs))
    assert (log_std.max(), log_std.min()) == (2, -20)
    still, _ = model.predict(obs, deterministic=True)
    np.testing.assert_allclose(ours.act(obs, np.random.default_rng(1), deterministic=True), still, atol=1e-6)
    noise = np.random.default_rng(1).standard_normal(mean.shape, dtype=np.float32)
    squashed = torch.tanh(mean + log_std.exp() * torch.from_numpy(noise)).detach().numpy()
    drawn = ours.act(obs, np.random.default_rng(1))
    np.testing.assert_allclose(drawn, model.policy.unscale_action(squashed), atol=1e-6)
    assert np.abs(drawn - still).max() > 0.1
    np.testing.assert_allclose(ours.act(obs[0], np.random.default_rng(1)), drawn[0], atol=1e-6)

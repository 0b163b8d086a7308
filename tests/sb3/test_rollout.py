"""Collection at the speed of the batch gives what Stable-Baselines3's own collection gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sb3_contrib import TRPO
from stable_baselines3 import SAC
from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit

from mepol.envs.gridworld import GridWorldVectorEnv
from mepol.finetuning.goals import near
from mepol.finetuning.reach import ReachVectorEnv
from mepol.sb3.actors import architecture
from mepol.sb3.adapter import BatchedVecEnv
from mepol.sb3.rollout import fill_replay, fill_rollout, rewards_to_go, squashed

SEEDS = [3, 1, 4]


@pytest.fixture
def env():
    return BatchedVecEnv(ReachVectorEnv(GridWorldVectorEnv(3), near(-5, -5, 0.7), 7))


def test_the_rollout_buffer_is_that_of_the_library(env):
    model = TRPO("MlpPolicy", env, n_steps=20, batch_size=60, policy_kwargs=architecture((8, 8)), device="cpu")
    _, callback = model._setup_learn(1)
    model._last_obs, model._last_episode_starts = env.restart(SEEDS), np.ones(3, dtype=bool)
    torch.manual_seed(5)
    model.collect_rollouts(env, callback, model.rollout_buffer, n_rollout_steps=20)
    names = ("observations", "actions", "rewards", "episode_starts", "values", "log_probs", "advantages", "returns")
    library = {name: getattr(model.rollout_buffer, name).copy() for name in names}
    torch.manual_seed(5)
    fill_rollout(model.rollout_buffer, env, model.policy, SEEDS, "lambda")
    for name in names:
        np.testing.assert_allclose(getattr(model.rollout_buffer, name), library[name], rtol=1e-4, atol=1e-5)
    assert library["episode_starts"].sum() > 3
    assert len(list(model.rollout_buffer.get(None))) == 1  # ready to be learnt from


def test_without_seeds_the_episodes_go_on(env):
    def played(steps: int, seeds: list[list[int] | None]) -> list[np.ndarray]:
        torch.manual_seed(1)
        model = TRPO("MlpPolicy", env, n_steps=steps, batch_size=60, policy_kwargs=architecture((8, 8)), device="cpu")
        parts = []
        for given in seeds:
            fill_rollout(model.rollout_buffer, env, model.policy, given)
            parts.append((model.rollout_buffer.observations.copy(), model.rollout_buffer.episode_starts.copy()))
        return [np.concatenate(columns) for columns in zip(*parts, strict=True)]

    whole, halves = played(40, [SEEDS]), played(20, [SEEDS, None])
    assert all(np.array_equal(a, b) for a, b in zip(whole, halves, strict=True))
    assert 0 < whole[1][20].sum() < 3  # where the second half begins, some are under way and some start


def test_rewards_to_go_by_hand():
    rewards = np.array([[0, 1], [1, 0], [0, 0], [2, 0]], dtype=np.float32)
    starts = np.array([[1, 1], [0, 1], [1, 0], [0, 0]], dtype=np.float32)  # left: 2 + 2 steps, right: 1 + 3
    after = np.array([0, 8], dtype=np.float32)
    expected = [[0.5, 1], [1, 1], [1, 2], [2, 4]]
    assert np.array_equal(rewards_to_go(rewards, starts, after, 0.5), np.array(expected, dtype=np.float32))


def test_rewards_to_go_are_the_returns_of_lambda_one(env):
    model = TRPO(
        "MlpPolicy", env, n_steps=20, gae_lambda=1.0, batch_size=60, policy_kwargs=architecture((8, 8)), device="cpu"
    )
    found = []
    for target in ("lambda", "reward-to-go"):
        torch.manual_seed(5)
        fill_rollout(model.rollout_buffer, env, model.policy, SEEDS, target)
        found.append(model.rollout_buffer.returns.copy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_the_replay_buffer_is_that_of_the_library(env):
    model = SAC("MlpPolicy", env, buffer_size=300, learning_starts=0, policy_kwargs={"net_arch": [8]}, device="cpu")
    _, callback = model._setup_learn(1)
    model._last_obs = env.restart(SEEDS)
    torch.manual_seed(5)
    model.collect_rollouts(env, callback, TrainFreq(20, TrainFrequencyUnit.STEP), model.replay_buffer)
    names = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
    library = {name: getattr(model.replay_buffer, name)[:20].copy() for name in names}
    model.replay_buffer.reset()
    torch.manual_seed(5)
    fill_replay(model.replay_buffer, env, squashed(model.actor), 20, SEEDS)
    for name in names:
        np.testing.assert_allclose(getattr(model.replay_buffer, name)[:20], library[name], rtol=1e-4, atol=1e-5)
    assert library["timeouts"].sum() > 0

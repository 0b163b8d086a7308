"""The log-volume as somebody else's reward: its mean is the entropy, and a real PPO is paid exactly that."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.env_util import make_vec_env

import mepol
from mepol.elsewhere import LogVolumeReward
from mepol.elsewhere.callback import IntrinsicReward
from mepol.elsewhere.reward import samples_of
from mepol.errors import ConfigError, ParticleError


def rollout(steps=40, envs=5, dim=3, seed=0):
    return np.random.default_rng(seed).normal(size=(steps, envs, dim)).astype(np.float32)


def test_the_mean_of_the_reward_is_the_entropy():
    states = rollout()
    paid = LogVolumeReward(k=4, scale="none").compute(samples_of(next_observations=states))
    assert paid.shape == (40, 5)
    assert paid.dtype == torch.float32
    assert float(paid.double().mean()) == pytest.approx(mepol.knn_entropy(states.reshape(-1, 3), k=4), abs=1e-5)


def test_each_step_is_paid_for_the_state_it_led_to():
    """By brute force: ln of the ball to the k-th nearest, step t of environment m at [t, m]."""
    states = rollout(dim=2)
    paid = LogVolumeReward(k=3, scale="none").compute(samples_of(next_observations=states)).numpy()
    flat = states.reshape(-1, 2).astype(np.float64)
    radius = np.sort(np.linalg.norm(flat[:, None] - flat[None], axis=2), axis=1)[:, 3]
    shares = np.log(np.pi * radius**2)
    np.testing.assert_allclose(paid - paid.mean(), (shares - shares.mean()).reshape(40, 5), atol=1e-5)


def test_scaling_weight_decay_and_features():
    states = rollout()
    reward = LogVolumeReward(k=4, beta=2.0, kappa=0.5)
    first, second = (reward.compute(samples_of(next_observations=states)).numpy() for _ in range(2))
    assert (first.mean(), first.std()) == pytest.approx((0, 2), abs=1e-5)
    np.testing.assert_allclose(second, first / 2, atol=1e-6)
    reward.compute(samples_of(next_observations=states), sync=False)
    assert reward.global_step == 2
    some = LogVolumeReward(k=4, features=(0, 2)).compute(samples_of(next_observations=states))
    cut = LogVolumeReward(k=4).compute(samples_of(next_observations=states[..., [0, 2]]))
    torch.testing.assert_close(some, cut)


def test_earlier_rollouts_are_neighbours_where_they_are_remembered():
    first, second = rollout(seed=1), rollout(seed=2)
    reward = LogVolumeReward(k=4, scale="none", memory=1)
    reward.compute(samples_of(next_observations=first))
    pooled = LogVolumeReward(k=4, scale="none").compute(samples_of(next_observations=np.concatenate([second, first])))
    torch.testing.assert_close(reward.compute(samples_of(next_observations=second)), pooled[:40])


def test_any_rollout_is_paid():
    states = rollout()
    states[..., 1] = 7.0  # a coordinate without spread
    reward = LogVolumeReward(k=4, scale="none")
    flat = reward.compute(samples_of(next_observations=states))
    torch.testing.assert_close(flat, reward.compute(samples_of(next_observations=states[..., [0, 2]])))
    states[:2] = 0.0  # ten states in one place
    paid = reward.compute(samples_of(next_observations=states)).numpy()
    assert np.isfinite(paid).all()
    assert (paid[:2] == paid.min()).all()
    assert np.ptp(paid) < 30
    assert not LogVolumeReward().compute(samples_of(next_observations=np.zeros((5, 2, 3)))).any()


def test_what_is_wrong_is_said():
    with pytest.raises(ParticleError, match="there is no 'actions'"):
        LogVolumeReward().compute({"observations": torch.zeros(2, 2, 1)})
    with pytest.raises(ParticleError, match="n_steps, n_envs"):
        LogVolumeReward().compute(samples_of(next_observations=np.zeros((5, 3))))
    with pytest.raises(ConfigError, match="kappa"):
        LogVolumeReward(kappa=2)
    model = SAC("MlpPolicy", "Pendulum-v1", learning_starts=5, buffer_size=100, device="cpu")
    with pytest.raises(ConfigError, match="on-policy learner"):
        model.learn(3, callback=IntrinsicReward(LogVolumeReward()))


class Watched:
    """The reward, with everything that it was shown."""

    def __init__(self):
        self.inner, self.steps, self.samples, self.paid = LogVolumeReward(k=4), [], [], []

    def watch(self, observations, actions, rewards, terminateds, truncateds, next_observations):
        self.steps.append((observations, actions, rewards, terminateds, truncateds, next_observations))

    def compute(self, samples, sync=True):
        self.samples.append(samples)
        self.paid.append(self.inner.compute(samples, sync))
        return self.paid[-1]


class Line(gymnasium.Env):
    """One coordinate, moved by the action; it ends beyond 1 and after ten steps, and its next start is at 0."""

    observation_space = gymnasium.spaces.Box(-20, 20, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = np.zeros(1, np.float32), 0
        return self.x.copy(), {}

    def step(self, action):
        self.x, self.t = self.x + action.astype(np.float32), self.t + 1
        return self.x.copy(), 3.0, bool(self.x[0] > 1), self.t >= 10, {}


@pytest.mark.parametrize("extrinsic", [1.0, 0.0])
def test_ppo_learns_from_the_sum(extrinsic):
    """Rewards, returns and advantages of the buffer, worked out by hand from what was seen."""
    reward = Watched()
    callback = IntrinsicReward(reward, extrinsic=extrinsic)
    model = PPO("MlpPolicy", make_vec_env(Line, 3, seed=1), n_steps=64, batch_size=64, n_epochs=1, seed=0, device="cpu")
    model.learn(64 * 3, callback=callback)
    buffer, samples = model.rollout_buffer, reward.samples[0]
    assert len(reward.steps) == 64
    moved = samples["observations"] + samples["actions"].clamp(-1, 1)
    torch.testing.assert_close(samples["next_observations"], moved)  # the end of an episode, not the next start
    assert bool(samples["terminateds"].any())
    assert bool(samples["truncateds"].any())
    ended = samples["terminateds"] | samples["truncateds"]
    assert bool((samples["observations"][1:][ended[:-1]] == 0).all())
    np.testing.assert_array_equal(callback.paid, reward.paid[0].numpy())
    whole = ~samples["truncateds"].numpy()  # where the learner added no value of what would have come
    expected = extrinsic * 3.0 + reward.paid[0].numpy()
    rewards = buffer.rewards
    np.testing.assert_allclose(rewards[whole], expected[whole], atol=1e-5)
    assert not np.allclose(rewards[~whole], expected[~whole], atol=1e-5)
    # the update has laid these out environment after environment
    returns, values = (getattr(buffer, n).reshape(3, 64).T for n in ("returns", "values"))
    for m in range(3):
        for t in range(62):  # one step of GAE's recursion: A_t = delta_t + gamma lambda A_{t+1}
            ahead = 0.0 if ended[t, m] else 1.0
            after = returns[t + 1, m] - values[t + 1, m]
            delta = rewards[t, m] + 0.99 * ahead * values[t + 1, m] - values[t, m]
            assert returns[t, m] - values[t, m] == pytest.approx(delta + 0.99 * 0.95 * ahead * after, abs=1e-3)

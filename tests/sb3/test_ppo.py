"""PPO on our batches: the buffer that Stable-Baselines3 would have filled itself, and updates that follow rewards."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from mepol.algorithm.batch import Batch
from mepol.algorithm.policy import GaussianPolicy
from mepol.sb3.library import RolloutBuffer
from mepol.sb3.ppo import BatchPpo
from mepol.sb3.randomness import drawing_from
from mepol.sb3.settings import PpoSettings

SETTINGS = PpoSettings(rate=1e-2, clip=0.2, discount=0.9, trace=0.8, passes=4, minibatch=50, kl=0.0, entropy=0.0)
SPACE = Box(-1, 1, (2,), np.float32)


@pytest.fixture
def start(make_policy: Callable) -> GaussianPolicy:
    policy: GaussianPolicy = make_policy()
    policy.shift.copy_(torch.tensor([0.5, -1.0]))
    policy.scale.copy_(torch.tensor([2.0, 0.25]))
    return policy


def learner(start: GaussianPolicy) -> BatchPpo:
    with drawing_from(np.random.SeedSequence(0)):
        return BatchPpo(start, SPACE, SETTINGS)


def test_the_actor_starts_as_the_policy_and_is_read_back_with_its_inputs_scale(start: GaussianPolicy) -> None:
    found = learner(start).policy()
    for name, tensor in start.state_dict().items():
        assert torch.equal(found.state_dict()[name], tensor), name


def test_the_buffer_is_the_one_that_the_library_fills(start: GaussianPolicy, random_walks: Callable) -> None:
    batch, ppo = random_walks(start, m=3, horizon=20), learner(start)
    rewards = np.random.default_rng(0).normal(size=60)
    ours = ppo.buffer(batch, rewards)
    # The same trajectories side by side in the library's own buffer, each cut by time after its last step.
    model = ppo._model
    theirs = RolloutBuffer(20, model.observation_space, model.action_space, "cpu", SETTINGS.trace, SETTINGS.discount, 3)
    seen = ((torch.from_numpy(batch.states).float() - start.shift) / start.scale).numpy()
    for t in range(20):
        obs, actions = torch.from_numpy(seen[:, t]), torch.from_numpy(batch.actions[:, t])
        with torch.no_grad():
            values, log_prob, _ = ppo.actor.evaluate_actions(obs, actions)
            last = ppo.actor.predict_values(torch.from_numpy(seen[:, -1])).flatten().numpy()
        paid = rewards.reshape(3, 20)[:, t] + (SETTINGS.discount * last if t == 19 else 0)
        theirs.add(seen[:, t], batch.actions[:, t], paid, np.full(3, t == 0), values, log_prob)
    theirs.compute_returns_and_advantage(torch.zeros(3, 1), np.ones(3, dtype=bool))
    for name in ("observations", "actions", "values", "log_probs", "advantages", "returns"):
        column = getattr(theirs, name)
        flat = column.swapaxes(0, 1).reshape(60, *column.shape[2:])
        np.testing.assert_allclose(getattr(ours, name)[:, 0], flat, rtol=1e-4, atol=1e-5, err_msg=name)
    truth = start.log_prob(
        torch.from_numpy(batch.states[:, :-1].reshape(60, 2)).float(), torch.from_numpy(batch.actions.reshape(60, 2))
    )
    np.testing.assert_allclose(ours.log_probs[:, 0], truth.detach(), rtol=1e-4, atol=1e-5)


def test_steps_beyond_the_end_of_a_trajectory_are_not_learnt_from(
    start: GaussianPolicy, random_walks: Callable
) -> None:
    lengths = np.array([20, 7, 1])
    batch, rewards = random_walks(start, m=3, horizon=20, lengths=lengths), np.arange(28.0)
    blank = Batch(batch.states.copy(), batch.actions.copy(), lengths)
    for i, length in enumerate(lengths):
        blank.states[i, length + 1 :], blank.actions[i, length:] = 1e6, 1e6
    ours, same = (learner(start).buffer(b, rewards) for b in (batch, blank))
    assert ours.buffer_size == 28
    for name in ("observations", "actions", "values", "log_probs", "advantages", "returns"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(same, name))


def test_an_update_goes_where_the_rewards_are(start: GaussianPolicy, random_walks: Callable) -> None:
    ppo = learner(start)
    for turn in range(5):
        batch = random_walks(ppo.policy(), m=10, horizon=20, seed=turn)
        with drawing_from(np.random.SeedSequence(turn)):
            ppo.learn(batch, batch.actions[..., 0].ravel().astype(np.float64))  # the more to the right the better
    states = torch.from_numpy(batch.states[:, :-1]).float()
    with torch.no_grad():
        gain = (ppo.policy().mean(states) - start.mean(states)).reshape(-1, 2).mean(0)
    assert gain[0] > 0.3
    assert abs(gain[1]) < 0.5 * gain[0]

"""SAC on our batches: the memory that Stable-Baselines3 would have filled itself, and updates that follow rewards."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mepol.algorithm.batch import Batch
from mepol.sb3.library import ReplayBuffer, ReplayBufferSamples
from mepol.sb3.randomness import drawing_from
from mepol.sb3.sac import BatchSac
from mepol.sb3.settings import SacSettings

SETTINGS = SacSettings(rate=3e-3, discount=0.0, batch=64, buffer=1000, tau=0.05)
SPACE = Box(np.array([-1, 0], np.float32), np.array([1, 4], np.float32))
SHIFT, SCALE = torch.tensor([0.5, -1.0, 10.0]), torch.tensor([2.0, 0.25, 5.0])


def learner(settings: SacSettings = SETTINGS, pay=lambda drawn: drawn.rewards) -> BatchSac:
    with drawing_from(np.random.SeedSequence(0)):
        return BatchSac(SHIFT, SCALE, (16, 16), SPACE, settings, pay)


def batch(rng: np.random.Generator, lengths: list[int]) -> Batch:
    m, horizon = len(lengths), max(lengths)
    states = rng.normal(size=(m, horizon + 1, 3))
    return Batch(states, rng.uniform(-2, 6, (m, horizon, 2)).astype(np.float32), np.array(lengths))


def test_the_policy_is_shown_raw_states_and_acts_as_the_actor_that_is_shown_scaled_ones() -> None:
    sac, states = learner(), np.random.default_rng(1).normal(size=(50, 3)) * 10
    seen = (torch.from_numpy(states).float() - SHIFT) / SCALE
    with torch.no_grad():
        theirs = sac.model.policy.predict(seen.numpy(), deterministic=True)[0]
    ours = sac.policy().act(states, np.random.default_rng(0), deterministic=True)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=6), st.integers(3, 40))
def test_the_memory_is_the_one_that_the_library_fills_step_by_step(epochs: list[list[int]], size: int) -> None:
    sac = learner(SacSettings(rate=1e-3, discount=0.9, batch=4, buffer=size, tau=0.1))
    theirs = ReplayBuffer(size, sac.model.observation_space, SPACE, "cpu", 1)
    rng = np.random.default_rng(0)
    for lengths in epochs:
        found = batch(rng, lengths)
        sac.store(found)
        for i, length in enumerate(lengths):
            for t in range(length):
                action = np.clip(found.actions[i, t], SPACE.low, SPACE.high)
                unit = 2 * (action - SPACE.low) / (SPACE.high - SPACE.low) - 1
                states = found.states[i].astype(np.float32)
                theirs.add(states[t], states[t + 1], unit, np.zeros(1), np.zeros(1), [{}])
    assert (sac.replay.pos, sac.replay.full, sac.replay.size()) == (theirs.pos, theirs.full, theirs.size())
    for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        held = getattr(sac.replay, name)[: theirs.size()]
        np.testing.assert_allclose(held, getattr(theirs, name)[: theirs.size()], atol=1e-6, err_msg=name)


def test_rewards_are_paid_for_raw_states_at_every_draw_and_networks_see_scaled_ones() -> None:
    calls: list[ReplayBufferSamples] = []

    def pay(drawn: ReplayBufferSamples) -> Tensor:
        calls.append(drawn)
        return drawn.next_observations[:, :1] + len(calls)

    sac = learner(pay=pay)
    sac.store(batch(np.random.default_rng(0), [20, 7]))
    for number in (1, 2):
        drawn = sac.replay.sample(30)
        raw = calls[-1].next_observations
        torch.testing.assert_close(drawn.rewards, raw[:, :1] + number)
        torch.testing.assert_close(drawn.next_observations, (raw - SHIFT) / SCALE)
        torch.testing.assert_close(drawn.observations, (calls[-1].observations - SHIFT) / SCALE)


@pytest.mark.parametrize("sign", [1, -1])
def test_updates_lead_to_the_actions_that_are_paid_for(sign: int) -> None:
    """Without a sight ahead: the reward is the first action itself, or its opposite."""
    sac = learner(pay=lambda drawn: sign * 5 * drawn.actions[:, :1])
    rng = np.random.default_rng(0)
    states = rng.normal(size=(10, 81, 3))
    sac.store(Batch(states, rng.uniform([-1, 0], [1, 4], (10, 80, 2)).astype(np.float32), np.full(10, 80)))
    seen = states.reshape(-1, 3)
    assert abs(sac.policy().act(seen, rng)[:, 0].mean()) < 0.3
    with drawing_from(np.random.SeedSequence(1)):
        sac.learn(400)
    assert sign * sac.policy().act(seen, rng)[:, 0].mean() > 0.6


def test_no_updates_leave_all_as_it_was() -> None:
    sac = learner()
    sac.store(batch(np.random.default_rng(0), [5]))
    before = sac.policy().state_dict()
    sac.learn(0)
    assert all(torch.equal(sac.policy().state_dict()[name], tensor) for name, tensor in before.items())
    with drawing_from(np.random.SeedSequence(1)):
        sac.learn(1)
    assert not all(torch.equal(sac.policy().state_dict()[name], tensor) for name, tensor in before.items())

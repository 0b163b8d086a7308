"""Policies that choose a skill for each trajectory, and what rebuilds them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mepol.envs.gridworld import GridWorldVectorEnv
from mepol.sampling.actors import SquashedPolicy
from mepol.sampling.collect import collect


@pytest.fixture
def skilled() -> SquashedPolicy:
    """Four skills, each a direction of its own, with hardly any noise."""
    policy = SquashedPolicy(2, 2, (), skills=4)
    with torch.no_grad():
        for tensor in policy.parameters():
            tensor.zero_()
        policy.mean.weight[:, 2:] = torch.tensor([[1.0, -1.0, 1.0, -1.0], [1.0, 1.0, -1.0, -1.0]]) * 0.5
        policy.log_std.bias.fill_(-15.0)
        policy.low.copy_(torch.tensor([-0.2, -0.1]))
        policy.high.copy_(torch.tensor([0.2, 0.3]))
    return policy


def test_each_trajectory_keeps_one_skill_drawn_uniformly(skilled: SquashedPolicy) -> None:
    actions = collect(skilled, GridWorldVectorEnv(800), 5, seed=np.random.SeedSequence(0)).actions
    assert np.abs(actions - actions[:, :1]).max() < 1e-5
    up, down = 0.1 + 0.2 * np.tanh(0.5), 0.1 - 0.2 * np.tanh(0.5)
    kinds, counts = np.unique(actions[:, 0].round(4), axis=0, return_counts=True)
    right = 0.2 * np.tanh(0.5)
    expected = [(-right, down), (-right, up), (right, down), (right, up)]
    np.testing.assert_allclose(kinds, expected, atol=1e-4)
    assert (np.abs(counts - 200) < 5 * np.sqrt(800 * 0.25 * 0.75)).all()


def test_without_begin_each_row_draws_its_own(skilled: SquashedPolicy) -> None:
    actions = skilled.act(np.zeros((100, 2)), np.random.default_rng(0), deterministic=True)
    assert len(np.unique(actions.round(4), axis=0)) == 4
    assert skilled.act(np.zeros(2), np.random.default_rng(0)).shape == (2,)


def test_widths_skills_and_tensors_rebuild_the_policy() -> None:
    policy = SquashedPolicy(3, 2, (8, 5), skills=2)
    state, action = policy.widths[0], policy.widths[-1]
    again = SquashedPolicy(state, action, policy.widths[1:-1], policy.skills)
    again.load_state_dict(policy.state_dict())
    names = {name.split(".")[0] for name in policy.state_dict()}
    assert names == {"layers", "mean", "log_std", "low", "high"}
    obs = np.random.default_rng(0).normal(size=(10, 3))
    acted = [p.begin(10, np.random.default_rng(1)).act(obs, np.random.default_rng(2)) for p in (policy, again)]
    assert np.array_equal(*acted)
    plain = SquashedPolicy(3, 2, (8,))
    assert plain.begin(10, np.random.default_rng(1)) is plain

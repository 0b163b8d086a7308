"""The step of TRPO with fewer Fisher products is that of the library, and keeps its trust region."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sb3_contrib import TRPO

from mepol.envs.gridworld import GridWorldVectorEnv
from mepol.finetuning.goals import near
from mepol.finetuning.reach import ReachVectorEnv
from mepol.sb3.actors import architecture
from mepol.sb3.adapter import BatchedVecEnv
from mepol.sb3.rollout import fill_rollout, ready
from mepol.sb3.trpo import SparseFisherTRPO

KL = 0.01


def step(kind: type[TRPO], **settings: int) -> tuple[TRPO, np.ndarray]:
    """A learner after one update, and how far its actor moved."""
    env = BatchedVecEnv(ReachVectorEnv(GridWorldVectorEnv(4), near(-5, -5, 0.7), 25))
    torch.manual_seed(1)
    model = kind(
        "MlpPolicy", env, n_steps=50, batch_size=200, target_kl=KL, policy_kwargs=architecture((8, 8)), **settings
    )
    ready(model)
    fill_rollout(model.rollout_buffer, env, model.policy, [3, 1, 4, 1])
    actor = [p for name, p in model.policy.named_parameters() if "value" not in name]
    before = torch.cat([p.detach().clone().flatten() for p in actor])
    model.train()
    return model, (torch.cat([p.detach().flatten() for p in actor]) - before).numpy()


def test_with_all_states_the_step_is_the_library_s():
    (_, library), (_, ours) = step(TRPO), step(SparseFisherTRPO, fisher_every=1)
    assert np.linalg.norm(library) > 1e-3
    np.testing.assert_allclose(ours, library, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("every", [3, 10])
def test_with_fewer_states_the_whole_batch_still_stays_in_the_trust_region(every):
    model, moved = step(SparseFisherTRPO, fisher_every=every)
    assert np.linalg.norm(moved) > 1e-3
    assert 0 < model.logger.name_to_value["train/kl_divergence_loss"] < KL

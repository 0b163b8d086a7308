"""The paper's random row: a zero-mean Gaussian covers as little of the plane in today's models as in the paper's."""

from __future__ import annotations

import numpy as np
import pytest

from mepol.policy import GaussianPolicy
from mepol.sampling import collect

pytest.importorskip("mujoco")

from mepol.envs.ant import AntVectorEnv
from mepol.envs.humanoid import HumanoidVectorEnv


def histogram_entropy(xy: np.ndarray) -> float:
    """Nats, of (T, 2) positions in 40 x 40 bins on +-12; the outer bins absorb what lies outside."""
    column, row = np.clip(np.floor((xy + 12.0) / 0.6), 0, 39).astype(int).T
    share = np.bincount(column * 40 + row) / len(xy)
    share = share[share > 0]
    return float(-(share * np.log(share)).sum())


@pytest.mark.parametrize(("domain", "paper"), [(AntVectorEnv, 1.86), (HumanoidVectorEnv, 0.84)])
def test_discrete_entropy_of_untrained_policies(domain, paper):
    """100 episodes of 500 steps by five untrained policies: one alone differs from the next by about 0.05."""
    env = domain(20)
    entropies = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        policy = GaussianPolicy(len(env.feature_names), env.single_action_space.shape[0], (400, 300))
        policy.initialise(rng, log_std=-0.5)
        policy.centre(env.single_observation_space, rng)
        batch = collect(policy, env, 500, seed=np.random.SeedSequence(seed))
        entropies += [histogram_entropy(episode[1:, :2]) for episode in batch.states]
    env.close()
    assert len(entropies) == 100
    assert np.mean(entropies) == pytest.approx(paper, abs=0.1)

"""A categorical policy and the learner that starts from it are the same policy, and played as the library plays it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, MultiDiscrete
from gymnasium.vector import AutoresetMode
from sb3_contrib import TRPO
from stable_baselines3 import PPO

from mepol.algorithm import CategoricalPolicy
from mepol.envs.make import make_env
from mepol.finetuning.reach import ReachVectorEnv
from mepol.sb3.actors import architecture, read_actor, write_actor
from mepol.sb3.adapter import BatchedVecEnv
from mepol.sb3.rollout import fill_rollout, ready
from mepol.sb3.trpo import SparseFisherTRPO

CHOICES = (3, 2)


class Walk(gymnasium.Env[Any, Any]):
    """Two coordinates, each moved by its own choice."""

    observation_space = Box(-2.0, 2.0, (2,), np.float64)
    action_space = MultiDiscrete(CHOICES, start=[-1, 7])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = self.np_random.uniform(-0.5, 0.5, 2)
        return self.at.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at = np.clip(self.at + 0.3 * (action - np.array([0, 7.5])), -2, 2)
        return self.at.copy(), 0.0, False, False, {}


@pytest.fixture
def env() -> BatchedVecEnv:
    base = make_env(Walk, 3, autoreset=AutoresetMode.DISABLED)
    return BatchedVecEnv(ReachVectorEnv(base, lambda states: states[:, 0] > 1.0, 7))


@pytest.fixture
def policy() -> CategoricalPolicy:
    made = CategoricalPolicy(2, CHOICES, (16, 12))
    made.draw_weights(np.random.default_rng(0))
    made.shift.copy_(torch.tensor([1.0, -2.0]))
    made.scale.copy_(torch.tensor([6.0, 0.5]))
    return made


@pytest.mark.parametrize("learner", [TRPO, PPO])
def test_the_actor_has_the_policys_action_distribution(env: Any, policy: CategoricalPolicy, learner: Any) -> None:
    model = learner("MlpPolicy", env, n_steps=4, batch_size=12, policy_kwargs=architecture((16, 12)), device="cpu")
    write_actor(model.policy, policy)
    rng = np.random.default_rng(0)
    states = torch.from_numpy(rng.uniform(-2, 2, (200, 2)).astype(np.float32))
    actions = torch.from_numpy(rng.integers(CHOICES, size=(200, 2)).astype(np.float32))
    with torch.no_grad():
        for theirs, ours in zip(model.policy.get_distribution(states).distribution, policy.logits(states), strict=True):
            torch.testing.assert_close(theirs.probs, ours.softmax(-1), rtol=1e-5, atol=1e-6)
        log_prob = model.policy.get_distribution(states).log_prob(actions)
        torch.testing.assert_close(log_prob, policy.log_prob(states, actions), rtol=1e-4, atol=1e-5)
        back = read_actor(model.policy)
        assert isinstance(back, CategoricalPolicy)
        assert (back.widths, back.choices) == (policy.widths, policy.choices)
        torch.testing.assert_close(back.log_prob(states, actions), log_prob)


def test_the_rollout_buffer_is_what_the_library_makes_of_the_same_actions(env: Any) -> None:
    """The draws differ, since ours are by inversion; so the library is handed ours and must store the same numbers."""
    names = ("observations", "actions", "rewards", "episode_starts", "values", "log_probs", "advantages", "returns")
    model = TRPO("MlpPolicy", env, n_steps=20, batch_size=60, policy_kwargs=architecture((8, 8)), device="cpu")
    _, callback = model._setup_learn(1)
    torch.manual_seed(5)
    fill_rollout(model.rollout_buffer, env, model.policy, [3, 1, 4], "lambda")
    ours = {name: getattr(model.rollout_buffer, name).copy() for name in names}
    drawn = iter(torch.from_numpy(ours["actions"]).long())
    forward = model.policy.forward

    def replayed(obs: torch.Tensor, deterministic: bool = False) -> tuple[torch.Tensor, ...]:
        _, values, _ = forward(obs, deterministic)
        actions = next(drawn)
        return actions, values, model.policy.get_distribution(obs).log_prob(actions)

    model.policy.forward = replayed
    model._last_obs, model._last_episode_starts = env.restart([3, 1, 4]), np.ones(3, dtype=bool)
    model.collect_rollouts(env, callback, model.rollout_buffer, n_rollout_steps=20)
    for name in names:
        np.testing.assert_allclose(ours[name], getattr(model.rollout_buffer, name), rtol=1e-4, atol=1e-5, err_msg=name)
    assert ours["episode_starts"].sum() > 3
    assert all(len(np.unique(ours["actions"][:, :, i])) == n for i, n in enumerate(CHOICES))


@pytest.mark.parametrize("every", [1, 3])
def test_an_update_of_trpo_stays_in_its_trust_region(env: Any, policy: CategoricalPolicy, every: int) -> None:
    torch.manual_seed(1)
    model = SparseFisherTRPO(
        "MlpPolicy", env, n_steps=60, batch_size=180, target_kl=0.01, fisher_every=every,
        policy_kwargs=architecture((16, 12)), device="cpu",
    )  # fmt: skip
    write_actor(model.policy, policy)
    ready(model)
    fill_rollout(model.rollout_buffer, env, model.policy, [3, 1, 4])
    before = read_actor(model.policy)
    model.train()
    after = read_actor(model.policy)
    assert 0 < model.logger.name_to_value["train/kl_divergence_loss"] < 0.01
    moved = [not torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True)]
    assert all(moved)

"""The reinforcement learner inside MaxEnt: sb3-contrib's TRPO, and its policy as one of ours."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from torch import nn

from mepol.algorithm.policy import GaussianPolicy
from mepol.errors import CollapseError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.maxent.maxent import Reward

# Every tenth state has a part in TRPO's Fisher products, as in fine-tuning: with MEPOL's wide layers they would be
# nearly half of a round.
FISHER_EVERY = 10


def batch_shape(config: ExploreConfig) -> tuple[int, int]:
    """Sub-environments and steps of each whose product is the steps of one TRPO update (or just below)."""
    envs = max(1, config.rival.trpo_steps // config.horizon)
    return envs, config.rival.trpo_steps // envs


def critic_batch(n: int) -> int:
    """Steps of one update of the critic: the largest divisor of n up to 128, since a remainder would be wasted."""
    largest = max(b for b in range(1, min(128, n) + 1) if n % b == 0)
    return largest if largest >= 32 else n


def train(
    env: VectorEnv[Any, Any, Any],
    reward: Reward,
    config: ExploreConfig,
    seed: np.random.SeedSequence,
    *,
    shift: NDArray[np.float64],
    scale: NDArray[np.float64],
) -> tuple[GaussianPolicy, int]:
    """A new policy, trained from scratch on `reward`, and the environment steps that took.

    env: as many sub-environments as `batch_shape` says. shift, scale: (S,) of the network's input.
    """
    from mepol.exploration.maxent.sb3_env import RewardedVecEnv  # optional: the other explorers do without
    from mepol.sb3.trpo import SparseFisherTRPO

    rival = config.rival
    steps = batch_shape(config)[1]
    with _private_randomness():
        limit = config.machine.env_time_limit
        venv = RewardedVecEnv(env, config.horizon, reward, shift=shift, scale=scale, time_limit=limit)
        widths = list(config.policy.hidden)
        model = SparseFisherTRPO(
            "MlpPolicy",
            venv,
            fisher_every=FISHER_EVERY,
            n_steps=steps,
            batch_size=critic_batch(steps * env.num_envs),
            gamma=rival.trpo_discount,
            target_kl=rival.trpo_kl,
            policy_kwargs={
                "net_arch": {"pi": widths, "vf": widths},
                "activation_fn": nn.ReLU,
                "log_std_init": config.policy.log_std,
                "optimizer_kwargs": {"fused": True},
            },
            seed=int(seed.generate_state(1)[0]),
            device="cpu",
        )
        total = rival.trpo_iterations * steps * env.num_envs
        model.learn(total)
        return as_gaussian(model.policy, shift, scale), total


def as_gaussian(actor_critic: Any, shift: NDArray[np.float64], scale: NDArray[np.float64]) -> GaussianPolicy:
    """The actor of a Stable-Baselines3 MLP policy with ReLU layers: the same mean and deviation."""
    linear = [layer for layer in actor_critic.mlp_extractor.policy_net if isinstance(layer, nn.Linear)]
    layers = [*linear, actor_critic.action_net]
    policy = GaussianPolicy(
        layers[0].in_features, layers[-1].out_features, tuple(layer.out_features for layer in layers[:-1])
    )
    with torch.no_grad():
        for ours, theirs in zip(policy.layers, layers, strict=True):
            assert isinstance(ours, nn.Linear)
            ours.weight.copy_(theirs.weight)
            ours.bias.copy_(theirs.bias)
        policy.log_std.copy_(actor_critic.log_std)
        policy.shift.copy_(torch.from_numpy(shift))
        policy.scale.copy_(torch.from_numpy(scale))
    if not all(bool(torch.isfinite(t).all()) for t in policy.state_dict().values()):
        raise CollapseError("TRPO left NaN or infinite weights; lower trpo_kl")
    return policy


@contextmanager
def _private_randomness() -> Iterator[None]:
    """Stable-Baselines3 seeds the global generators: everybody else's are as before afterwards."""
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002

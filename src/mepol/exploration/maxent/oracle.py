"""The reinforcement learner inside MaxEnt: TRPO from scratch on a given reward, as in fine-tuning."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mepol.algorithm.policy import GaussianPolicy, one_thread
from mepol.errors import CollapseError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.maxent.maxent import Reward
from mepol.exploration.maxent.rewarded import RewardedVectorEnv
from mepol.sb3.randomness import drawing_from
from mepol.sb3.settings import TrpoSettings


def batch_shape(config: ExploreConfig) -> tuple[int, int]:
    """Sub-environments and steps of each whose product is the steps of one TRPO update (or just below)."""
    envs = max(1, config.rival.trpo_steps // config.horizon)
    return envs, config.rival.trpo_steps // envs


def critic_batch(n: int) -> int:
    """Steps of one update of the critic: the largest divisor of n up to 128, since a remainder would be wasted."""
    largest = max(b for b in range(1, min(128, n) + 1) if n % b == 0)
    return largest if largest >= 32 else n


def trpo_settings(config: ExploreConfig) -> TrpoSettings:
    """The paper's trust region and discount; the rest are the defaults of sb3-contrib."""
    envs, steps = batch_shape(config)
    return TrpoSettings(
        steps=steps,
        kl=config.rival.trpo_kl,
        discount=config.rival.trpo_discount,
        gae_lambda=0.95,
        cg_steps=15,
        cg_damping=0.1,
        backtrack=0.8,
        max_backtracks=10,
        value_rate=1e-3,
        value_passes=10,
        value_batch=critic_batch(envs * steps),
    )


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
    An episode longer than an update's steps goes on in the next.
    """
    from mepol.sb3.actors import architecture, read_actor  # optional: the other explorers do without
    from mepol.sb3.adapter import BatchedVecEnv
    from mepol.sb3.rollout import fill_rollout, ready
    from mepol.sb3.trpo import make_trpo

    rewarded = RewardedVectorEnv(
        env, config.horizon, reward, shift=shift, scale=scale, time_limit=config.machine.env_time_limit
    )
    venv, settings, iterations = BatchedVecEnv(rewarded), trpo_settings(config), config.rival.trpo_iterations
    starts: list[int] | None = seed.spawn(1)[0].generate_state(env.num_envs).tolist()
    kind = {"ortho_init": True, "log_std_init": config.policy.log_std, "optimizer_kwargs": {"fused": True}}
    with drawing_from(seed), one_thread():
        model = make_trpo(venv, settings, architecture(config.policy.hidden, **kind))
        ready(model)
        for _ in range(iterations):
            fill_rollout(model.rollout_buffer, venv, model.policy, starts, "lambda")
            model.train()
            starts = None
            venv.take_episodes()
        policy = read_actor(model.policy, shift, scale)
        assert isinstance(policy, GaussianPolicy)  # discrete actions were refused
    if not all(bool(torch.isfinite(t).all()) for t in policy.state_dict().values()):
        raise CollapseError("TRPO left NaN or infinite weights; lower trpo_kl")
    return policy, iterations * settings.steps * env.num_envs

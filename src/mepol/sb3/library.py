"""The one door to Stable-Baselines3 and sb3-contrib, which are optional: where they are missing it says so."""

from __future__ import annotations

from mepol.errors import MepolError

try:
    from sb3_contrib import TRPO
    from stable_baselines3 import PPO, SAC
    from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.distributions import kl_divergence
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.policies import ActorCriticPolicy
    from stable_baselines3.common.type_aliases import ReplayBufferSamples
    from stable_baselines3.common.vec_env import VecEnv
    from stable_baselines3.sac.policies import Actor as SacActor
except ImportError as fault:
    raise MepolError(
        "reinforcement learning needs Stable-Baselines3 and sb3-contrib "
        f"({fault.name} is missing): pip install 'mepol[finetune]'"
    ) from fault

__all__ = [
    "PPO",
    "SAC",
    "TRPO",
    "ActorCriticPolicy",
    "BaseCallback",
    "Logger",
    "ReplayBuffer",
    "ReplayBufferSamples",
    "RolloutBuffer",
    "SacActor",
    "VecEnv",
    "kl_divergence",
]

"""Stable-Baselines3 and sb3-contrib, which are optional, and what our environments share towards them."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import VectorEnv

from mepol.errors import EnvironmentFault, MepolError

try:
    from sb3_contrib import TRPO
    from stable_baselines3.common.buffers import ReplayBuffer
    from stable_baselines3.common.type_aliases import ReplayBufferSamples
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as fault:
    raise MepolError(
        "reinforcement learning needs Stable-Baselines3 and sb3-contrib "
        f"({fault.name} is missing): pip install 'mepol[finetune]'"
    ) from fault

__all__ = ["TRPO", "BatchVecEnv", "ReplayBuffer", "ReplayBufferSamples"]


class BatchVecEnv(VecEnv):
    """A VecEnv whose sub-environments are one batch, `env`: asked about single ones, all M share its answer."""

    env: VectorEnv[Any, Any, Any]

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The batch's attribute, once a sub-environment."""
        return [getattr(self.env, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refused: the sub-environments have no attributes of their own."""
        raise EnvironmentFault(f"a batched environment has no sub-environments to set {attr_name!r} on")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Refused: the sub-environments have no methods of their own."""
        raise EnvironmentFault(f"a batched environment has no sub-environments to call {method_name!r} on")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Never: wrappers go around the batch."""
        return [False] * len(list(self._get_indices(indices)))

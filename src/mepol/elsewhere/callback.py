"""An intrinsic reward within Stable-Baselines3's on-policy learners (PPO, A2C, sb3-contrib's TRPO).

    PPO("MlpPolicy", env).learn(100_000, callback=IntrinsicReward(LogVolumeReward(k=4)))

A reward of whole rollouts cannot be paid step by step, as a wrapper of environments would. So it is added to the
rollout buffer once that is full, and returns and advantages are computed again.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mepol.elsewhere.reward import samples_of
from mepol.errors import ConfigError
from mepol.sb3.library import BaseCallback, RolloutBuffer


class Reward(Protocol):
    """What the callback asks of a reward; the calls are named as RLeXplore's."""

    def watch(
        self,
        observations: Tensor,
        actions: Tensor,
        rewards: Tensor,
        terminateds: Tensor,
        truncateds: Tensor,
        next_observations: Tensor,
    ) -> Any:
        """One step of all environments."""
        ...

    def compute(self, samples: Any, sync: bool = True) -> Tensor:
        """(n_steps, n_envs) rewards of a rollout."""
        ...


class IntrinsicReward(BaseCallback):
    """Adds `reward` to every rollout. extrinsic: what the environment's own rewards are multiplied by, 0 for none.

    The value that the learner adds at a time limit for what would have come stays as it is.
    """

    def __init__(self, reward: Reward, *, extrinsic: float = 1.0) -> None:
        super().__init__()
        self.reward, self.extrinsic = reward, extrinsic
        self.paid: NDArray[np.float32] = np.zeros((0, 0), dtype=np.float32)
        """(n_steps, n_envs) of the last rollout."""
        self._steps: list[dict[str, NDArray[Any]]] = []

    def _on_rollout_start(self) -> None:
        self._steps = []

    def _on_step(self) -> bool:
        seen = self.locals
        if "rollout_buffer" not in seen:
            raise ConfigError("an intrinsic reward of whole rollouts needs an on-policy learner: PPO, A2C or TRPO")
        after = np.array(seen["new_obs"])
        cut = np.zeros(len(after), dtype=bool)
        for i in np.flatnonzero(seen["dones"]):  # the observation is the next episode's start
            after[i] = seen["infos"][i]["terminal_observation"]
            cut[i] = bool(seen["infos"][i].get("TimeLimit.truncated", False))
        ended = np.asarray(seen["dones"], dtype=bool)
        step = {
            "observations": np.array(self.model._last_obs),
            "actions": np.array(seen["actions"]),
            "rewards": np.array(seen["rewards"]),
            "terminateds": ended & ~cut,
            "truncateds": cut,
            "next_observations": after,
        }
        self.reward.watch(**{name: torch.as_tensor(value) for name, value in step.items()})
        self._steps.append(step)
        return True

    def _on_rollout_end(self) -> None:
        buffer = self.locals["rollout_buffer"]
        assert isinstance(buffer, RolloutBuffer)
        samples = samples_of(**{name: np.stack([step[name] for step in self._steps]) for name in self._steps[0]})
        self.paid = self.reward.compute(samples, sync=True).cpu().numpy().astype(np.float32)
        own = np.stack([step["rewards"] for step in self._steps]).astype(np.float32)
        buffer.rewards = buffer.rewards + np.float32(self.extrinsic - 1.0) * own + self.paid
        buffer.compute_returns_and_advantage(last_values=self.locals["values"], dones=self.locals["dones"])
        self.logger.record("rollout/intrinsic_reward_mean", float(self.paid.mean()))

"""How an intrinsic reward reaches SAC: through the replay buffer that SAC samples from.

    replayed methods (SMM, ICM):  recomputed on every batch that SAC draws, then updated on it
    online methods (Pseudocount): computed once, when a transition is stored, and kept

Both ways the reward that SAC learns from is  extrinsic_weight * r + intrinsic_weight * bonus.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mepol.rewards.reward import IntrinsicReward, Transitions
from mepol.sb3.library import ReplayBufferSamples
from mepol.sb3.replay import PaidReplay


@dataclass(frozen=True)
class Weights:
    """How much each of the two rewards counts; the paper weights them equally."""

    extrinsic: float = 1.0
    intrinsic: float = 1.0


class ShapedReplay(PaidReplay):
    """A replay buffer with an intrinsic reward added at sampling or at storing.

    The extrinsic reward is stored as it came (plus the bonus of an online method).
    """

    method: IntrinsicReward
    weights: Weights

    def shape(self, method: IntrinsicReward, weights: Weights) -> None:
        """Add the bonus of `method` from now on."""
        self.method, self.weights = method, weights
        if not method.online:
            self.pay = self._shaped

    def add(
        self,
        obs: NDArray[Any],
        next_obs: NDArray[Any],
        action: NDArray[Any],
        reward: NDArray[Any],
        done: NDArray[Any],
        infos: list[dict[str, Any]],
    ) -> None:
        """Store M transitions; an online method pays its bonus here."""
        if self.method.online:
            seen = Transitions(*(torch.from_numpy(np.asarray(x, dtype=np.float32)) for x in (obs, action, next_obs)))
            bonus = self.method.reward(seen).numpy()
            self.method.update(seen)
            reward = self.weights.extrinsic * reward + self.weights.intrinsic * bonus
        super().add(obs, next_obs, action, reward, done, infos)

    def _shaped(self, batch: ReplayBufferSamples) -> Tensor:
        """The sum of both rewards; the method then learns from the same batch."""
        drawn = Transitions(batch.observations, batch.actions, batch.next_observations)
        bonus = self.method.reward(drawn).unsqueeze(1)
        self.method.update(drawn)
        return self.weights.extrinsic * batch.rewards + self.weights.intrinsic * bonus

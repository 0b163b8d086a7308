"""Stable-Baselines3's replay memory, which stores whole batches at once and pays for steps as they are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mepol.sb3.library import ReplayBuffer, ReplayBufferSamples

Floats = NDArray[np.floating]
Pay = Callable[[ReplayBufferSamples], Tensor]
"""A batch of B transitions, with the rewards that were stored -> (B, 1) those that are learnt from."""


class PaidReplay(ReplayBuffer):
    """The memory of a learner whose rewards may change after the step: `pay` is asked at every draw."""

    pay: Pay = staticmethod(lambda drawn: drawn.rewards)

    def sample(self, batch_size: int, env: Any = None) -> ReplayBufferSamples:
        """A batch of transitions, paid now."""
        batch = super().sample(batch_size, env)
        return batch._replace(rewards=self.pay(batch))

    def extend(self, states: Floats, actions: Floats, reached: Floats) -> None:
        """Store N transitions of one environment that never ends: (N, S), (N, A) in [-1, 1], (N, S); no reward yet."""
        which = (self.pos + np.arange(len(states))) % self.buffer_size
        self.observations[which, 0], self.actions[which, 0], self.next_observations[which, 0] = states, actions, reached
        for column in (self.rewards, self.dones, self.timeouts):
            column[which] = 0
        self.full = self.full or self.pos + len(states) >= self.buffer_size
        self.pos = int(self.pos + len(states)) % self.buffer_size

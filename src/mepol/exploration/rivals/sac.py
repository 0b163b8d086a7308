"""A rival that learns by SAC, from a memory of all batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor

from mepol.algorithm.batch import Batch
from mepol.algorithm.policy import GaussianPolicy
from mepol.errors import ConfigError
from mepol.exploration.rivals.explorer import RivalExplorer, inputs_of
from mepol.exploration.workshop import Workshop
from mepol.rewards.reward import Transitions
from mepol.runs.checkpoint import Part, Position
from mepol.runs.directory import RunDirectory
from mepol.runs.memory import Memory
from mepol.sb3.library import ReplayBufferSamples
from mepol.sb3.sac import BatchSac


class SacRival(RivalExplorer):
    """Learns by many updates of SAC per epoch, from a memory of all steps that is paid anew whenever it is drawn from.

    So APT and RE3 learnt in their papers; neighbours are those of the same draw. A reward that learns does so once from
    each batch that was drawn.
    """

    learner: BatchSac
    _epoch = 0

    def __init__(self, workshop: Workshop) -> None:
        super().__init__(workshop)
        self._memory = Memory(self.learner.replay)
        self._newest = 0

    def _learner(self, start: GaussianPolicy, space: Box) -> BatchSac:
        if not space.is_bounded():
            why = f"SAC needs bounded actions, and those of {self.domain.env} are not"
            raise ConfigError(f"learner = 'sac' is not possible: {why}; 'ppo' is")
        return BatchSac(start.shift, start.scale, start.widths[1:-1], space, self.config.rival.sac, self._pay_drawn)

    def learn(self, batch: Batch, epoch: int) -> None:
        """Remember the batch, then learn from batches of all that is remembered."""
        self._epoch, self._newest = epoch, batch.size
        self.learner.store(batch)
        self.learner.learn(self.config.rival.sac_updates)

    def keep(self, run: RunDirectory[Any, Any], turn: int) -> tuple[Part, ...]:
        """The newest steps of the memory."""
        self._memory.store(run, turn, self._newest)
        return self._memory.parts

    def recall(self, position: Position, part: Callable[[int], Path]) -> None:
        """The memory: every step of the run is in it, or was."""
        self._memory.recall(position, position.samples, part)

    def _pay_drawn(self, drawn: ReplayBufferSamples) -> Tensor:
        """(B, 1) rewards of B remembered steps, from which the reward then learns."""
        domain, inputs = self.domain, self.config.rival.reward_inputs
        states = (drawn.observations.double().numpy(), drawn.next_observations.double().numpy())
        now, after = (torch.from_numpy(inputs_of(s, domain, inputs).astype(np.float32)) for s in states)
        steps = Transitions(now, drawn.actions, after)
        with self.clock.time("knn"):
            rewards = self.pay(steps, self._epoch)
        self.reward.update(steps)
        return rewards.unsqueeze(1)

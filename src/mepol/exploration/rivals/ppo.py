"""A rival that learns by PPO, from each epoch's batch alone."""

from __future__ import annotations

import torch
from gymnasium.spaces import Box

from mepol.algorithm.batch import Batch
from mepol.algorithm.policy import GaussianPolicy
from mepol.exploration.rivals.config import LearntRewardConfig
from mepol.exploration.rivals.explorer import RivalExplorer, transitions
from mepol.sb3.ppo import BatchPpo


class PpoRival(RivalExplorer):
    """Learns by one update of PPO per epoch; the reward learns from the batch that it has paid for."""

    learner: BatchPpo

    def _learner(self, start: GaussianPolicy, space: Box) -> BatchPpo:
        return BatchPpo(start, space, self.config.rival.ppo)

    def learn(self, batch: Batch, epoch: int) -> None:
        """Pay for the batch, teach the reward, update actor and critic."""
        rival = self.config.rival
        with self.clock.time("knn"):
            steps = transitions(batch, self.domain, rival.reward_inputs)
            rewards = self.pay(steps, epoch)
        if isinstance(rival, LearntRewardConfig):
            for _ in range(rival.reward_passes):
                for rows in torch.split(torch.randperm(len(steps.obs)), rival.reward_batch):
                    self.reward.update(steps.at(rows))
        self.learner.learn(batch, rewards.double().numpy())

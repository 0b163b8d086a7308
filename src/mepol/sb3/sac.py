"""Stable-Baselines3's SAC, in an environment or on batches that our sampler gathered.

On such batches memory and updates are the library's, nothing else is. As with PPO (ppo.py) a rival samples as MEPOL
does. What it sampled is stored as it came; a reward that changes as the explorer learns is paid anew whenever SAC
draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from mepol.algorithm.batch import Batch
from mepol.algorithm.policy import one_thread
from mepol.algorithm.symmetry import Symmetry
from mepol.sampling.actors import SquashedPolicy
from mepol.sb3.actors import read_squashed
from mepol.sb3.adapter import BatchedVecEnv
from mepol.sb3.alone import set_up
from mepol.sb3.library import SAC, ReplayBuffer, ReplayBufferSamples
from mepol.sb3.replay import PaidReplay, Pay
from mepol.sb3.settings import SacSettings


class BatchSac:
    """SAC in the bounded action space `space`; its networks are drawn from torch's generator.

    shift, scale: (S,). Actor and critics are shown (s - shift) / scale; both may be changed until the first update.
    hidden: layers of actor and critics. pay: rewards of a batch as it is drawn, which holds raw states.
    """

    symmetries: tuple[Symmetry, ...] = ()

    def __init__(
        self, shift: Tensor, scale: Tensor, hidden: tuple[int, ...], space: Box, settings: SacSettings, pay: Pay
    ) -> None:
        self.shift, self.scale, self._settings, self._space = shift.clone(), scale.clone(), settings, space
        self.model: Any = set_up(make_sac(None, space, settings, hidden, _ShownScaled), len(shift), space)
        self.replay: PaidReplay = self.model.replay_buffer
        """The memory, of raw states and of actions in [-1, 1]."""
        self.replay.pay = pay
        self.actor: nn.Module = self.model.policy
        """All networks: actor, critics and their targets."""
        self.model.replay_buffer.shift, self.model.replay_buffer.scale = self.shift, self.scale

    def policy(self) -> SquashedPolicy:
        """The actor as it is now, shown raw states."""
        return read_squashed(self.model.actor, self._space, shift=self.shift, scale=self.scale)

    def store(self, batch: Batch) -> None:
        """Remember all steps of `batch`. A trajectory is a window on an endless task: no step ends anything."""
        visited, box = batch.visited(), self._space
        actions = 2 * (np.clip(batch.actions[visited], box.low, box.high) - box.low) / (box.high - box.low) - 1
        self.replay.extend(batch.states[:, :-1][visited], actions, batch.states[:, 1:][visited])

    def learn(self, updates: int) -> None:
        """So many gradient steps of all networks. Batches from NumPy's generator, noise from torch's."""
        if updates:
            with one_thread():
                self.model.train(updates, self._settings.batch)

    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """Name -> optimiser."""
        model = self.model
        own = {"actor": model.actor.optimizer, "critic": model.critic.optimizer}
        return {**own, "temperature": model.ent_coef_optimizer}

    def loose(self) -> dict[str, Tensor]:
        """Name -> tensor that learns and is no network's."""
        return {"log_temperature": self.model.log_ent_coef}


class _ShownScaled(PaidReplay):
    """Pays for raw states, and hands out what the networks are shown."""

    shift: Tensor
    scale: Tensor

    def sample(self, batch_size: int, env: Any = None) -> ReplayBufferSamples:
        """A batch of transitions, paid now."""
        batch = super().sample(batch_size, env)
        now, after = ((states - self.shift) / self.scale for states in (batch.observations, batch.next_observations))
        return batch._replace(observations=now, next_observations=after)


def make_sac(
    env: BatchedVecEnv | None,
    space: Box,
    settings: SacSettings,
    hidden: tuple[int, ...],
    memory: type[ReplayBuffer],
) -> SAC:
    """SAC in `env`, with actions in `space`; without one its networks are still to be made, as `set_up` does.

    hidden: layers of actor and critics. Draws initial weights from the global generators.
    """
    return SAC(
        "MlpPolicy",
        env,  # type: ignore[arg-type]
        learning_rate=settings.rate,
        gamma=settings.discount,
        buffer_size=settings.buffer,
        batch_size=settings.batch,
        tau=settings.tau,
        learning_starts=0,
        ent_coef="auto",
        target_entropy=settings.entropy * float(np.prod(space.shape)),
        replay_buffer_class=memory,
        policy_kwargs={"net_arch": list(hidden), "activation_fn": nn.ReLU},
        device="cpu",
        _init_setup_model=env is not None,
    )

"""Stable-Baselines3's PPO, in an environment or on batches that our sampler gathered.

On such batches the update is the library's, nothing else is. So a rival samples as MEPOL does, at the same speed, on
any number of threads, with the randomness of the run. What the library would have computed on the way (values,
log-probabilities, advantages) is computed once for the whole batch; its own `compute_returns_and_advantage` gives the
same numbers (tests/sb3/test_ppo.py).
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import Tensor

from mepol.algorithm.batch import Batch
from mepol.algorithm.config import CriticConfig
from mepol.algorithm.critic import advantages
from mepol.algorithm.policy import GaussianPolicy, one_thread
from mepol.sb3.actors import architecture, read_actor, tie_actor, write_actor
from mepol.sb3.adapter import BatchedVecEnv
from mepol.sb3.alone import set_up
from mepol.sb3.library import PPO, ActorCriticPolicy, RolloutBuffer
from mepol.sb3.settings import PpoSettings


class BatchPpo:
    """PPO whose actor starts as `start`, in the action space `space`; its critic is drawn from torch's generator.

    Actor and critic are shown (s - shift) / scale, as `start` is; both may be changed until the first update. They have
    the symmetries of `start`, where it has any.
    """

    def __init__(self, start: GaussianPolicy, space: Box, settings: PpoSettings) -> None:
        self.shift, self.scale = start.shift.clone(), start.scale.clone()
        self._settings = settings
        alone = make_ppo(None, 1, settings, architecture(start.widths[1:-1]))  # a buffer comes with every batch
        self._model = set_up(alone, start.widths[0], space)
        self.actor: ActorCriticPolicy = self._model.policy
        bare = copy.deepcopy(start)
        bare.shift.zero_()
        bare.scale.fill_(1.0)
        write_actor(self.actor, bare)
        self.symmetries = start.symmetries
        tie_actor(self.actor, self.symmetries)

    def policy(self) -> GaussianPolicy:
        """The actor as it is now."""
        found = read_actor(self.actor, self.shift.double().numpy(), self.scale.double().numpy())
        assert isinstance(found, GaussianPolicy)  # as the start was
        return found

    def learn(self, batch: Batch, rewards: NDArray[np.float64]) -> None:
        """One update. rewards: (N,) of arriving in each particle of `batch`. Minibatches from NumPy's generator."""
        with one_thread():
            self._model.rollout_buffer = self.buffer(batch, rewards)
            self._model.train()

    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """Name -> optimiser."""
        return {"policy": self.actor.optimizer}

    def loose(self) -> dict[str, Tensor]:
        """Name -> tensor that learns and is no network's: none."""
        return {}

    @torch.no_grad()
    def buffer(self, batch: Batch, rewards: NDArray[np.float64]) -> RolloutBuffer:
        """The N steps of `batch` as the library's buffer: one environment, trajectory after trajectory.

        A trajectory is a window on an endless task: its last state counts with its value.
        """
        own, visited = self._settings, batch.visited()
        paid = np.zeros(visited.shape)
        paid[visited] = rewards
        seen = (torch.from_numpy(batch.states.astype(np.float32)) - self.shift) / self.scale  # (M, T+1, S)
        values = self.actor.predict_values(seen.flatten(0, 1)).view(seen.shape[:2]).double().numpy()
        gain = advantages(paid, values, batch.lengths, CriticConfig(discount=own.discount, trace=own.trace))[visited]
        states, actions = seen[:, :-1][torch.from_numpy(visited)], batch.actions[visited]
        log_prob: Tensor = self.actor.evaluate_actions(states, torch.from_numpy(actions))[1]
        model = self._model
        buffer = RolloutBuffer(batch.size, model.observation_space, model.action_space, "cpu", own.trace, own.discount)
        known = values[:, :-1][visited]
        filled = {"values": known, "log_probs": log_prob.numpy(), "advantages": gain, "returns": gain + known}
        for name, column in filled.items():
            getattr(buffer, name)[:, 0] = column
        buffer.observations[:, 0], buffer.actions[:, 0] = states.numpy(), actions
        buffer.pos, buffer.full = batch.size, True
        return buffer


def make_ppo(env: BatchedVecEnv | None, steps: int, settings: PpoSettings, networks: dict[str, Any]) -> PPO:
    """PPO in `env`; without one its networks are still to be made, as `set_up` does.

    steps: of each sub-environment in an update. networks: `policy_kwargs`, as `architecture` gives them. Draws initial
    weights from the global generators.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an uneven last minibatch is fine
        return PPO(
            "MlpPolicy",
            env,  # type: ignore[arg-type]
            learning_rate=settings.rate,
            n_steps=steps,
            batch_size=settings.minibatch,
            n_epochs=settings.passes,
            gamma=settings.discount,
            gae_lambda=settings.trace,
            clip_range=settings.clip,
            ent_coef=settings.entropy,
            target_kl=settings.kl or None,
            policy_kwargs=networks,
            device="cpu",
            _init_setup_model=env is not None,
        )

"""Rivals of today as explorers: an epoch is one batch, and learning from an intrinsic reward alone by PPO or by SAC."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import Tensor

from mepol.algorithm.batch import Batch
from mepol.algorithm.policy import GaussianPolicy, one_thread
from mepol.envs.coordinates import features_of
from mepol.envs.domain import Domain
from mepol.errors import ConfigError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.explorers import Explorer, Improvement
from mepol.exploration.learner import Stopwatch
from mepol.exploration.policies import make_policy, take_first_batch
from mepol.exploration.workshop import Workshop
from mepol.rewards.icm import Icm
from mepol.rewards.nearest import Apt, Re3
from mepol.rewards.reward import IntrinsicReward, Transitions
from mepol.rewards.rnd import Rnd
from mepol.rewards.running import RunningMoments
from mepol.runs.state import State
from mepol.runs.streams import Stream, stream
from mepol.sampling.collect import Actor
from mepol.sb3.ppo import BatchPpo
from mepol.sb3.randomness import drawing_from
from mepol.sb3.sac import BatchSac
from mepol.settings import require

Make = Callable[[ExploreConfig, int, int], IntrinsicReward]
"""Settings, coordinates of an input, actions -> the reward; initial weights from torch's generator."""


def _rnd(config: ExploreConfig, size: int, _: int) -> IntrinsicReward:
    own = config.rival
    return Rnd(size, own.reward_width, own.reward_outputs, own.reward_rate)


def _re3(config: ExploreConfig, size: int, _: int) -> IntrinsicReward:
    own = config.rival
    return Re3(
        size,
        own.reward_width if own.reward_encoder == "random" else 0,
        own.reward_outputs,
        k=own.reward_k,
        pool=own.reward_pool,
        relative=own.reward_relative,
        workers=config.machine.cores,
    )


def _apt(config: ExploreConfig, size: int, actions: int) -> IntrinsicReward:
    own = config.rival
    return Apt(
        Icm(size, actions, own.reward_width, own.reward_rate) if own.reward_encoder == "icm" else None,
        k=own.reward_k,
        pool=own.reward_pool,
        relative=own.reward_relative,
        workers=config.machine.cores,
    )


REWARDS: dict[str, Make] = {"rnd": _rnd, "re3": _re3, "apt": _apt}
"""Explorer -> its reward."""


class RivalExplorer(Explorer):
    """One policy that learns what its reward pays for. The seed and an epoch's number fix all that it draws."""

    def __init__(self, workshop: Workshop) -> None:
        super().__init__(workshop)
        config, domain = self.config, self.domain
        if config.policy.noise_correlation:
            rho, who = config.policy.noise_correlation, config.rival.learner.upper()
            raise ConfigError(f"noise_correlation = {rho} is not possible: it must be 0, since {who} draws white noise")
        space, start = domain.action_space, make_policy(config, domain)
        if not isinstance(space, Box) or not isinstance(start, GaussianPolicy):
            why = f"its policy is a Gaussian, and {domain.env} has discrete actions"
            raise ConfigError(f"explorer = {config.explorer!r} is not possible: {why}")
        by_ppo = config.rival.learner == "ppo"
        require(by_ppo or not start.symmetries, "symmetric", True, "off with the learner sac")
        with drawing_from(stream(config.seed, Stream.RIVAL_WEIGHTS)), one_thread():
            self.learner = self._learner(start, space)
            size = len(domain.widths) if config.rival.reward_inputs == "features" else domain.state_dim
            self.reward = REWARDS[config.explorer](config, size, domain.action_dim)
        self.paid = RunningMoments()
        self.clock = Stopwatch()

    @abstractmethod
    def _learner(self, start: GaussianPolicy, space: Box) -> BatchPpo | BatchSac:
        """Who learns, with the networks and the view of `start`; weights from torch's generator."""

    @abstractmethod
    def learn(self, batch: Batch, epoch: int) -> None:
        """From an epoch's batch, once it is paid for; the global generators are the epoch's."""

    def actor(self) -> Actor:
        """The learner's."""
        return self.learner.policy()

    def improve(self, epoch: int) -> Improvement:
        """Sample, pay, teach the reward, update the policy."""
        config, clock = self.config, self.clock
        began = time.perf_counter()
        with clock.time("sample"):
            seed = stream(config.seed, Stream.BATCH, epoch)
            batch = self.workshop.collect(self.actor(), config.trajectories, config.horizon, seed)
        if epoch == 0:
            take_first_batch(self.learner, batch, self.domain, config.policy)
        with drawing_from(stream(config.seed, Stream.RIVAL_UPDATE, epoch)), one_thread():
            self.learn(batch, epoch)
        took = clock.take()
        rest = time.perf_counter() - began - took["sample"] - took["knn"]
        seconds = {"sample_s": took["sample"], "knn_s": took["knn"], "optimise_s": rest}
        return Improvement(batch.size, {name: round(value, 4) for name, value in seconds.items()}, batch=batch)

    def state(self, turn: int) -> State:
        """The learner's networks, the reward's models, what is known of its size, and the scale of the inputs."""
        learner, reward = self.learner, self.reward
        return State(
            {"policy": learner.actor, "reward": reward, "paid": self.paid},
            {**learner.optimisers(), **{f"reward.{n}": o for n, o in reward.optimisers().items()}},
            {"shift": learner.shift, "scale": learner.scale, **learner.loose()},
        )

    def pay(self, steps: Transitions, epoch: int) -> Tensor:
        """(N,) rewards of steps, in units of their deviation so far where the settings say so."""
        rewards, rival = self.reward.reward(steps), self.config.rival
        if rival.scale_reward:
            self.paid.watch(rewards)
            rewards = rewards / self.paid.deviation
        faded: Tensor = rewards * (1 - rival.reward_decay) ** epoch
        return faded


def transitions(batch: Batch, domain: Domain, inputs: str) -> Transitions:
    """The N steps of `batch` as a reward sees them, in the order of its particles.

    inputs: `features`, in units of the domain's widths, or `state`. Actions are clipped to their box and brought to
    [-1, 1] where it is bounded.
    """
    visited = batch.visited()
    before, after = (inputs_of(s[visited], domain, inputs) for s in (batch.states[:, :-1], batch.states[:, 1:]))
    box = domain.action_space
    assert isinstance(box, Box)
    actions = np.clip(batch.actions[visited], box.low, box.high)
    if box.is_bounded():
        actions = 2 * (actions - box.low) / (box.high - box.low) - 1
    return Transitions(*(torch.from_numpy(array.astype(np.float32)) for array in (before, actions, after)))


def inputs_of(states: NDArray[np.float64], domain: Domain, inputs: str) -> NDArray[np.float64]:
    """(N, S) states -> (N, D) what a reward sees of them."""
    if inputs == "state":
        return states
    chosen = features_of(states, np.ones(len(states), dtype=bool), domain.features)
    in_widths: NDArray[np.float64] = chosen / np.array(domain.widths)
    return in_widths

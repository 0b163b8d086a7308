"""Entropy-regularised learning of a task: the states that a batch visits are rewarded for being far from the others.

    J = E[R] + beta H(d),    A = A_ext + beta_i A_ent,    beta_i = beta (1 - decay)^i in iteration i

The particles are the N = T M states that the steps of the iteration's batch led to (an episode's last one too, its
start not), in the features and units of the run's domain.json, which are the exploration's: H(d) is what exploration
climbs, by the gradient of algorithm/advantage.py. Two kinds of reward, both in nats:

    state              r_i = ln V_i, the volume of the ball to the k-th neighbour in the whole batch
    value-conditional  rewards/conditional.py, V being the learner's own value of a state in units of its deviation

What is credited is (r - mean over the batch) / (deviation of all batches so far): a step that is as good as the others
earns nothing, so that an episode which ends at the goal loses nothing by its end. A_ent has the learner's discount and
lambda, and a value function of its own (algorithm/critic.py), which starts at zero and learns the lambda-returns. None
of this draws from the learner's generators: with beta = 0 the learner is the plain one, to the bit.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mepol.algorithm.config import CriticConfig
from mepol.algorithm.critic import Critic
from mepol.envs.coordinates import features_of
from mepol.envs.domain import Domain
from mepol.errors import ConfigError
from mepol.estimators import entropy
from mepol.finetuning.config import FinetuneConfig
from mepol.rewards.conditional import conditional_entropy, value_conditional
from mepol.rewards.running import RunningMoments
from mepol.runs.state import State
from mepol.runs.streams import Stream, stream
from mepol.sb3.adapter import Floats
from mepol.sb3.library import RolloutBuffer
from mepol.sb3.rollout import Judge, Played, credit

ONE_PLACE = 1e-3
"""Share of the batch's spread below which states are one place, where the domain has no floor of its own: bodies that
stand against a wall coincide, and are to be paid little, not minus infinity."""


@dataclass(frozen=True)
class Paid:
    """What the states of one batch are worth."""

    played: Played
    """How its episodes ended."""
    rewards: NDArray[np.float64]
    """(T, M) nats, of the state that each step led to."""
    entropy: float
    """nats: of the particles, or of them given their value."""


class EntropyTerm:
    """The entropy reward of a run, its scale and its value function.

    domain: of the run; its features say what the entropy is of. state_dim: S, of what the learner sees.
    """

    def __init__(self, config: FinetuneConfig, domain: Domain, state_dim: int) -> None:
        if callable(domain.features):
            weight = config.entropy.entropy_weight
            raise ConfigError(
                f"entropy_weight = {weight} is not possible where the exploration's features are a function, which no "
                "file holds: explore with features by name, or start from its policy file"
            )
        self._config, self._workers = config.entropy, config.machine.cores
        self._domain = domain
        self._critic = Critic(
            state_dim, CriticConfig(), np.random.default_rng(stream(config.seed, Stream.TASK_ENTROPY))
        )
        self._optimiser = torch.optim.Adam(self._critic.parameters(), lr=self._critic.config.critic_rate)
        self._seen = RunningMoments()

    def pay(self, buffer: RolloutBuffer, played: Played, judge: Judge) -> Paid:
        """What the steps in `buffer` are worth; nothing is learnt. judge: the learner's own value of states."""
        shape, k = buffer.rewards.shape, self._config.entropy_k
        reached = played.reached(buffer.observations)
        points = features_of(reached.astype(np.float64), np.ones(shape, dtype=bool), self._domain.features)
        widths = np.array(self._domain.widths)
        floor = self._domain.floor or one_place(points / widths)
        if self._config.entropy_kind == "state":
            near = dataclasses.replace(self._domain, floor=floor).near(points, k, workers=self._workers)
            return Paid(played, near.log_volume.reshape(shape), entropy(near))
        value = judge(reached.reshape(-1, reached.shape[-1])).astype(np.float64)
        rewards = value_conditional(points / widths, _in_deviations(value), k, floor=floor)
        index = conditional_entropy(rewards, k, len(widths)) + float(np.log(widths).sum())
        return Paid(played, rewards.reshape(shape), index)

    def add_to(self, buffer: RolloutBuffer, paid: Paid, iteration: int) -> None:
        """Add beta A_ent to the advantages in `buffer`, and teach the value function of the entropy what was seen."""
        self._seen.watch(torch.from_numpy(paid.rewards).flatten())
        credited = (paid.rewards - paid.rewards.mean()) / float(self._seen.deviation)
        states = torch.from_numpy(buffer.observations.reshape(-1, buffer.observations.shape[-1]))
        self._critic.watch(states)
        gain, returns = credit(buffer, paid.played, credited, self._value)
        buffer.advantages += np.float32(self._config.weight(iteration)) * gain
        self._critic.fit(states, torch.from_numpy(returns).flatten(), self._optimiser)

    def state(self) -> State:
        """The value function, its optimiser, and the scale of the reward."""
        return State({"entropy_value": self._critic, "entropy_scale": self._seen}, {"entropy_value": self._optimiser})

    @torch.no_grad()
    def _value(self, states: Floats) -> Floats:
        worth: Floats = self._critic(torch.from_numpy(states)).numpy()
        return worth


def one_place(points: NDArray[np.float64]) -> float:
    """A distance that tells none of (N, D) points apart: a share of the root mean square of their deviations."""
    return ONE_PLACE * float(np.sqrt(points.var(axis=0).mean())) or 1.0


def _in_deviations(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N,) values in units of their deviation; as they are where they do not differ."""
    return values / (float(values.std()) or 1.0)

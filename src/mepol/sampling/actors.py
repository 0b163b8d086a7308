"""Anything that acts, as the sampler wants it."""

from __future__ import annotations

import dataclasses
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from gymnasium.spaces import Box, MultiDiscrete
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from torch import Tensor, nn

from mepol.algorithm.categorical import CategoricalPolicy
from mepol.algorithm.network import ReluNetwork
from mepol.algorithm.policy import GaussianPolicy, one_thread
from mepol.algorithm.population import PopulationPolicy
from mepol.envs.choices import choices_of, kind_of
from mepol.envs.contract import check_spaces
from mepol.errors import EnvironmentFault, PolicyFileError
from mepol.sampling.collect import Actor, Episodic

Explorer = Actor | Callable[[NDArray[np.floating]], NDArray[np.floating]]
"""A policy, or a function of observations (M, S) that gives actions (M, A), or (M,) where A is one."""
LOG_STD_RANGE = (-20.0, 2.0)  # that soft actor-critic keeps ln std(s) in (Stable-Baselines3)


@dataclass(frozen=True)
class FunctionActor:
    """A user's function as an actor; its own randomness, if any, is its own affair."""

    function: Callable[[NDArray[np.floating]], NDArray[np.floating]]

    def act(
        self, obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[np.float32]:
        """What the function gives."""
        actions = np.asarray(self.function(obs), dtype=np.float32)
        return actions[:, None] if actions.ndim == 1 == np.ndim(obs) - 1 else actions


@dataclass(frozen=True)
class MeanActor:
    """An actor without its noise."""

    actor: Actor

    def begin(self, m: int, rng: np.random.Generator) -> MeanActor:
        """What acts in the next M trajectories: the means of what would act there."""
        return MeanActor(self.actor.begin(m, rng)) if isinstance(self.actor, Episodic) else self

    def act(
        self, obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[np.float32]:
        """(M, S) observations -> (M, A) mean actions."""
        return self.actor.act(obs, rng, True)


@dataclass(frozen=True)
class UniformActor:
    """Actions drawn uniformly from a box, whatever the state.

    low, high: (A,) float32.
    """

    low: NDArray[np.float32]
    high: NDArray[np.float32]

    @staticmethod
    def of(env: VectorEnv[Any, Any, Any]) -> UniformActor:
        """Over the action space of `env`, which must be bounded."""
        return UniformActor.over(check_spaces(env)[1])

    @staticmethod
    def over(box: Box | MultiDiscrete) -> UniformActor:
        """Over `box`, which must be bounded."""
        if not isinstance(box, Box):
            raise EnvironmentFault(f"the action space {box} is discrete: no box is uniform over it")
        if not box.is_bounded():
            raise EnvironmentFault(f"the action space {box} is unbounded: no action is uniform over it")
        return UniformActor(box.low.astype(np.float32), box.high.astype(np.float32))

    def act(
        self, obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[np.float32]:
        """(S,) or (M, S) observations -> (A,) or (M, A); the middle of the box when deterministic."""
        shape = (*np.shape(obs)[:-1], len(self.low))
        share = 0.5 if deterministic else rng.random(shape, dtype=np.float32)
        drawn: NDArray[np.float32] = np.broadcast_to(self.low + (self.high - self.low) * share, shape)
        return drawn.astype(np.float32)


@dataclass(frozen=True)
class NormalActor:
    """Standard normal actions, whatever the state: random play where the actions have no bounds.

    action_dim: A.
    """

    action_dim: int

    def act(
        self, obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[np.float32]:
        """(M, S) observations -> (M, A) actions; zeros when deterministic."""
        shape = (*np.shape(obs)[:-1], self.action_dim)
        return np.zeros(shape, np.float32) if deterministic else rng.standard_normal(shape, dtype=np.float32)


def random_play(env: VectorEnv[Any, Any, Any]) -> Actor:
    """Actions that know nothing: uniform over the action space of `env`, or standard normal where it has no bounds."""
    observed, acted = check_spaces(env)
    if not isinstance(acted, Box):
        return uniform_choices(observed.shape[0], acted)
    return UniformActor.over(acted) if acted.is_bounded() else NormalActor(acted.shape[0])


def uniform_choices(state_dim: int, space: MultiDiscrete) -> CategoricalPolicy:
    """Discrete actions that are drawn uniformly, whatever the state."""
    policy = CategoricalPolicy(state_dim, tuple(int(n) for n in space.nvec), (1,))
    policy.level()
    return policy


class _Choosing(ABC):
    """An actor that first chooses, a component or a skill for each row."""

    def act(
        self, obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[np.float32]:
        """(S,) or (M, S) observations -> (A,) or (M, A) actions, each by a choice drawn for it alone."""
        rows = np.atleast_2d(obs)
        actions = self.act_with(self._drawn(len(rows), rng), rows, rng, deterministic)
        return actions[0] if np.ndim(obs) == 1 else actions

    @abstractmethod
    def act_with(
        self, chosen: NDArray[np.int64], obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool
    ) -> NDArray[np.float32]:
        """(M,) choices, (M, S) observations -> (M, A) actions."""

    @abstractmethod
    def _drawn(self, m: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """(M,) choices."""


@dataclass(frozen=True)
class _Fixed:
    """An actor whose choices (M,) are made for whole trajectories."""

    actor: _Choosing
    chosen: NDArray[np.int64]

    def act(
        self, obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[np.float32]:
        """(M, S) observations -> (M, A) actions."""
        return self.actor.act_with(self.chosen, obs, rng, deterministic)


@dataclass(frozen=True)
class Mixture(_Choosing):
    """Components and how often each acts: the first is uniform over the actions, the others are Gaussian policies.

    weights: (1 + number of policies,), the first for uniform actions; they sum to 1.
    draw: whether a component is drawn at every step or once per trajectory.
    """

    uniform: UniformActor
    policies: tuple[GaussianPolicy, ...]
    weights: NDArray[np.float64]
    draw: Literal["step", "episode"] = "step"

    def extended(self, policy: GaussianPolicy, weigh: Callable[[int], NDArray[np.float64]]) -> Mixture:
        """The mixture with one more component. weigh: number of components -> their weights, oldest first."""
        policies = (*self.policies, policy)
        return dataclasses.replace(self, policies=policies, weights=weigh(1 + len(policies)))

    def begin(self, m: int, rng: np.random.Generator) -> Actor:
        """What acts in the next M trajectories: the mixture itself, or one component for each."""
        return self if self.draw == "step" else _Fixed(self, self._drawn(m, rng))

    def act_with(
        self, chosen: NDArray[np.int64], obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool
    ) -> NDArray[np.float32]:
        """(M,) components, (M, S) observations -> (M, A) actions."""
        actions = np.zeros((len(obs), len(self.uniform.low)), dtype=np.float32)
        for index in np.unique(chosen):
            actor: Actor = self.policies[index - 1] if index else self.uniform
            rows = chosen == index
            actions[rows] = actor.act(obs[rows], rng, deterministic)
        return actions

    def _drawn(self, m: int, rng: np.random.Generator) -> NDArray[np.int64]:
        if not self.policies:  # nothing to choose: uniform actions alone draw no more than they need
            return np.zeros(m, dtype=np.int64)
        return rng.choice(len(self.weights), m, p=self.weights)


class SquashedPolicy(_Choosing, nn.Module):
    """a = middle + half tanh(mean(s) + std(s) noise), within `low` and `high` (A,): the policies of soft actor-critic.

    Mean and spread are two heads of one ReLU network. With skills, it sees [s, one-hot skill]: `begin` draws a skill
    for each trajectory, uniformly. `widths` is (S, hidden layers, A), without the skills; together with `skills` it
    rebuilds the module, and `state_dict` is the rest.
    """

    low: Tensor
    high: Tensor

    @torch.random.fork_rng(devices=[])  # torch's generator stays as it was
    def __init__(self, state_dim: int, action_dim: int, hidden: tuple[int, ...], skills: int = 0) -> None:
        super().__init__()
        self.widths, self.skills = (state_dim, *hidden, action_dim), skills
        inside = (state_dim + skills, *hidden)
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in itertools.pairwise(inside))
        self.mean = nn.Linear(inside[-1], action_dim)
        self.log_std = nn.Linear(inside[-1], action_dim)
        self.register_buffer("low", -torch.ones(action_dim))
        self.register_buffer("high", torch.ones(action_dim))

    def begin(self, m: int, rng: np.random.Generator) -> Actor:
        """What acts in the next M trajectories: the policy itself, or with one skill for each."""
        return _Fixed(self, self._drawn(m, rng)) if self.skills else self

    @torch.no_grad()
    def act_with(
        self, chosen: NDArray[np.int64], obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool
    ) -> NDArray[np.float32]:
        """(M,) skills, (M, S) observations -> (M, A) actions; the skills are not read where there are none."""
        noise = None if deterministic else rng.standard_normal((len(obs), self.widths[-1]), dtype=np.float32)
        x = np.asarray(obs, dtype=np.float32)
        if self.skills:
            x = np.concatenate([x, np.eye(self.skills, dtype=np.float32)[chosen]], axis=1)
        with one_thread():
            return self._respond(torch.from_numpy(x), None if noise is None else torch.from_numpy(noise)).numpy()

    def _respond(self, x: Tensor, noise: Tensor | None) -> Tensor:
        for layer in self.layers:
            x = layer(x).relu_()
        inner: Tensor = self.mean(x)
        if noise is not None:
            inner = inner + self.log_std(x).clamp(*LOG_STD_RANGE).exp() * noise
        return (self.high + self.low) / 2 + (self.high - self.low) / 2 * torch.tanh(inner)

    def _drawn(self, m: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return rng.integers(self.skills, size=m) if self.skills else np.zeros(m, dtype=np.int64)


def as_actor(explorer: Explorer) -> Actor:
    """The actor itself, or a function wrapped as one."""
    return explorer if hasattr(explorer, "act") else FunctionActor(explorer)


def check_fit(actor: Any, state_dim: int, actions: Box | MultiDiscrete, place: str) -> None:
    """PolicyFileError where `actor` is a policy of other states (S = state_dim,) or actions than `place` has."""
    action_dim, wanted, found = actions.shape[0], choices_of(actions), getattr(actor, "choices", None)
    own = isinstance(actor, ReluNetwork | Mixture | SquashedPolicy)
    if own and found != wanted:
        raise PolicyFileError(f"the policy has {kind_of(found)} actions, and {place} has {kind_of(wanted)} ones")
    if isinstance(actor, Mixture):
        if len(actor.uniform.low) != action_dim:
            raise PolicyFileError(f"the policy has {len(actor.uniform.low)} actions, and {place} has {action_dim}")
        for policy in actor.policies:
            check_fit(policy, state_dim, actions, place)
    widths = getattr(actor, "widths", None)
    if widths is not None and found is not None:
        widths = (widths[0], action_dim)  # one logit for each value of each choice
    if isinstance(actor, PopulationPolicy):
        widths = (actor.widths[0], actor.action_dim)  # of each of them
    if widths is not None and (widths[0], widths[-1]) != (state_dim, action_dim):
        raise PolicyFileError(
            f"the policy maps {widths[0]} state coordinates to {widths[-1]} actions, "
            f"and {place} has {state_dim} and {action_dim}: it was made for another environment"
        )

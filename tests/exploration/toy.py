"""A walker in the unit square, as a single environment; and parts of an exploration of one's own."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from torch import nn

from mepol import Explorer
from mepol.algorithm import RULES, Batch, KnnLandscape, Rule
from mepol.exploration.explorers import Improvement, Kind
from mepol.exploration.policies import make_policy
from mepol.runs.state import State
from mepol.runs.streams import Stream, stream


class Toy(gymnasium.Env):
    """The state is where it is; an action moves it, and noise."""

    observation_space = Box(0.0, 1.0, (2,), np.float64)
    action_space = Box(-0.1, 0.1, (2,), np.float32)
    feature_names = ("east", "north")

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.at = self.np_random.uniform(0.4, 0.6, 2)
        return self.at.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        noise = self.np_random.normal(0, 0.01, 2)
        self.at = np.clip(self.at + np.clip(action, -0.1, 0.1) + noise, 0, 1)
        return self.at.copy(), 0.0, False, False, {}


def factory() -> Toy:
    return Toy()


def batched(n: int) -> gymnasium.vector.VectorEnv:
    return gymnasium.vector.SyncVectorEnv([Toy] * n)


def radius(states: np.ndarray) -> np.ndarray:
    """(N, S) -> (N, 1): distance from the corner."""
    return np.linalg.norm(states, axis=1, keepdims=True)


class Linear(nn.Module):
    """A policy class of one's own: no hidden layer, one spread for all actions."""

    def __init__(self, state_dim: int, action_dim: int) -> None:
        super().__init__()
        self.mean = nn.Linear(state_dim, action_dim)
        self.log_std = nn.Parameter(torch.tensor(-2.0))
        for parameter in self.mean.parameters():
            nn.init.zeros_(parameter)

    def log_prob(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return torch.distributions.Normal(self.mean(states), self.log_std.exp()).log_prob(actions).sum(-1)

    @torch.no_grad()
    def act(self, obs: np.ndarray, rng: np.random.Generator, deterministic: bool = False) -> np.ndarray:
        mean = self.mean(torch.as_tensor(obs, dtype=torch.float32)).numpy()
        noise = rng.standard_normal(mean.shape, dtype=np.float32)
        return mean if deterministic else mean + float(self.log_std.exp()) * noise


def _halved(*arguments: Any) -> Any:
    return RULES["importance"].make(*arguments)


RULE = Rule("halved", "importance weights under another name", _halved, weights_matter=True)


def objective(batch: Batch, domain: Any) -> KnnLandscape:
    """The same estimator with more neighbours than the settings ask for."""
    return KnnLandscape.of(domain.particles(batch), 9, eps=1e-12)


class Wanderer(Explorer):
    """Random search: a Gaussian whose last bias is drawn anew each epoch."""

    def __init__(self, workshop: Any) -> None:
        super().__init__(workshop)
        self.policy = make_policy(self.config, self.domain)

    def actor(self) -> Any:
        return self.policy

    def improve(self, epoch: int) -> Improvement:
        rng = np.random.default_rng(stream(self.config.seed, Stream.WEIGHTS, epoch + 1))
        batch = self.workshop.collect(self.policy, 3, 10, stream(self.config.seed, Stream.BATCH, epoch))
        with torch.no_grad():
            self.policy.layers[-1].bias += torch.from_numpy(rng.normal(0, 0.05, 2)).float()
        return Improvement(30, batch=batch)

    def state(self, turn: int) -> State:
        return State({"policy": self.policy}, {})


WANDERER = Kind("wanderer", "draws a direction each epoch", Wanderer)

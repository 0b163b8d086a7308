"""What all rules of ascent share: the steps of a climb, what a rule makes, its optimiser, and how a step is undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mepol.algorithm.batch import Batch
from mepol.algorithm.config import AscentConfig, CriticConfig
from mepol.algorithm.landscape import Landscape
from mepol.algorithm.policy import Policy, Stateful


@dataclass(frozen=True)
class Step:
    """One tried gradient step: what Eq. 2 and Eq. 3 say of where it led (nats)."""

    accepted: bool
    learning_rate: float
    entropy: float
    kl: float
    ess: float


Climb = Callable[[Batch, Landscape], tuple[Step, ...]]
"""Improves a policy in place by one batch that it drew; returns the steps that were tried."""


@dataclass(frozen=True)
class Ascent:
    """A policy on its way up: how it climbs, and all that a climb changes.

    modules, optimisers: by their names in a checkpoint; one of the modules is the "policy".
    """

    climb: Climb
    modules: Mapping[str, Stateful]
    optimisers: Mapping[str, torch.optim.Optimizer]


@dataclass(frozen=True)
class Rule:
    """A way to climb, by name.

    make(policy, config, critic, state_dim, rng): the Ascent of a policy of states (S = state_dim,); `rng` draws what
    else the rule starts from. A rule reads what it needs and leaves the rest.
    weights_matter: whether the gradient weighs particles by importance, so that few effective ones are a danger.
    """

    name: str
    summary: str
    make: Callable[[Policy, AscentConfig, CriticConfig, int, np.random.Generator], Ascent]
    weights_matter: bool


def make_optimiser(policy: Policy, config: AscentConfig) -> torch.optim.Optimizer:
    """Adam or the plain gradient, as `config` says, uphill over all parameters of `policy`."""
    if config.optimiser == "adam":
        return torch.optim.Adam(
            policy.parameters(), lr=config.learning_rate, eps=config.damping, maximize=True, fused=True
        )
    return torch.optim.SGD(policy.parameters(), lr=config.learning_rate, maximize=True)


class Undo:
    """Takes back everything that one optimiser step changed: parameters, moments and step counts."""

    def __init__(self, policy: Policy, optimiser: torch.optim.Optimizer) -> None:
        self._optimiser = optimiser
        self._parameters = [(p, p.detach().clone()) for p in policy.parameters()]
        self._state = {
            p: {name: value.clone() for name, value in state.items() if isinstance(value, Tensor)}
            for p, state in optimiser.state.items()
        }

    @torch.no_grad()
    def __call__(self) -> None:
        """Restore. Optimiser entries that the step created are removed."""
        for parameter, value in self._parameters:
            parameter.copy_(value)
        for key in list(self._optimiser.state):
            if key in self._state:
                self._optimiser.state[key].update(self._state[key])
            else:
                del self._optimiser.state[key]

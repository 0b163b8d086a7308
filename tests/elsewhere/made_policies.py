"""Policies of the Ant's size and tiny ones, with states for them."""

from __future__ import annotations

import numpy as np
import torch

from mepol.algorithm.categorical import CategoricalPolicy
from mepol.algorithm.policy import GaussianPolicy
from mepol.sampling.actors import SquashedPolicy

SIZES = {"ant": (29, 8, (400, 300)), "tiny": (2, 1, (3,)), "linear": (3, 2, ())}


def gaussian(size: str, correlation: float = 0.0) -> GaussianPolicy:
    """Seeded, with an input scaling that is far from none."""
    state_dim, action_dim, hidden = SIZES[size]
    policy, rng = GaussianPolicy(state_dim, action_dim, hidden, correlation), np.random.default_rng(3)
    policy.initialise(rng, log_std=-0.5)
    with torch.no_grad():
        policy.shift.copy_(torch.from_numpy(rng.uniform(-2, 2, state_dim)))
        policy.scale.copy_(torch.from_numpy(rng.uniform(0.5, 3, state_dim)))
        policy.log_std.copy_(torch.from_numpy(rng.uniform(-1, 0.5, action_dim)))
    return policy


def categorical(choices: tuple[int, ...]) -> CategoricalPolicy:
    """Seeded, far from uniform, with an input scaling that is far from none."""
    policy, rng = CategoricalPolicy(5, choices, (32, 16)), np.random.default_rng(4)
    policy.draw_weights(rng)
    with torch.no_grad():
        policy.layers[-1].weight.mul_(3.0)
        policy.shift.copy_(torch.from_numpy(rng.uniform(-2, 2, 5)))
        policy.scale.copy_(torch.from_numpy(rng.uniform(0.5, 3, 5)))
    return policy


def squashed() -> SquashedPolicy:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        policy = SquashedPolicy(4, 2, (16, 8))
        for tensor in policy.parameters():
            torch.nn.init.normal_(tensor, std=0.5)
    policy.low.copy_(torch.tensor([-1.0, -0.5]))
    policy.high.copy_(torch.tensor([3.0, 0.5]))
    return policy


def states(policy: object, rows: int = 200) -> np.ndarray:
    return np.random.default_rng(11).normal(size=(rows, policy.widths[0])) * 2


def means(policy: object, obs: np.ndarray) -> np.ndarray:
    return policy.act(obs, np.random.default_rng(0), deterministic=True)

"""What a step was worth: a value function of the state, and generalised advantages from it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mepol.algorithm.config import CriticConfig
from mepol.algorithm.symmetry import Symmetry, even_inputs, tie_value

ROWS = 1000  # states of one regression step
FAINT = 12.75  # least spread of a pixel, of 255
KEEP = 0.8  # share of the old input statistics that an update keeps


class Critic(nn.Module):
    """V(s): a network of standardised states; it starts at zero everywhere."""

    shift: Tensor
    scale: Tensor

    @torch.random.fork_rng(devices=[])  # torch's generator stays as it was
    def __init__(self, state_dim: int, config: CriticConfig, rng: np.random.Generator) -> None:
        super().__init__()
        self.config = config
        self._symmetries: Sequence[Symmetry] = ()
        widths = (state_dim, *config.critic_hidden, 1)
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in itertools.pairwise(widths))
        self.register_buffer("shift", torch.zeros(state_dim))
        self.register_buffer("scale", torch.zeros(state_dim))  # zero: no state seen yet
        with torch.no_grad():
            for layer in self.layers:
                assert isinstance(layer, nn.Linear)
                bound = math.sqrt(6.0 / sum(layer.weight.shape))
                layer.weight.copy_(torch.from_numpy(rng.uniform(-bound, bound, tuple(layer.weight.shape))))
                layer.bias.zero_()
            self.layers[-1].weight.zero_()  # type: ignore[operator]

    def tie(self, symmetries: Sequence[Symmetry]) -> None:
        """From here on value the images of a state alike."""
        tie_value(self.layers, symmetries)
        self._symmetries = symmetries

    def forward(self, states: Tensor) -> Tensor:
        """(..., S) states -> (...) values."""
        bend = torch.relu if self.config.critic_units == "relu" else torch.tanh
        x = (states - self.shift) / self.scale
        for layer in self.layers[:-1]:
            x = bend(layer(x))
        out: Tensor = self.layers[-1](x)
        return out[..., 0]

    @torch.no_grad()
    def values(self, states: NDArray[Any]) -> NDArray[np.float64]:
        """(M, T+1, S) states -> (M, T+1) values; pictures become real numbers a trajectory at a time."""
        if states.dtype == np.uint8:
            return np.stack([self(torch.from_numpy(path).float()).double().numpy() for path in states])
        found: NDArray[np.float64] = self(torch.from_numpy(states.astype(np.float32))).double().numpy()
        return found

    @torch.no_grad()
    def watch(self, states: Tensor) -> None:
        """Take the mean and spread of (N, S) new states into the standardisation, gently after the first time.

        Of pictures, ROWS evenly spread ones will do, and no pixel spreads less than FAINT: one that was still may light
        up.
        """
        least = 1e-6
        if states.dtype == torch.uint8:
            states, least = states[:: max(1, len(states) // ROWS)].float(), FAINT
        mean, spread = states.mean(0), states.std(0, correction=0).clamp_min(least)
        keep = KEEP if bool(self.scale.any()) else 0.0
        self.shift.lerp_(mean, 1 - keep)
        self.scale.lerp_(spread, 1 - keep)
        even_inputs(self.shift, self.scale, self._symmetries)

    def fit(self, states: Tensor, returns: Tensor, optimiser: torch.optim.Optimizer) -> None:
        """Regress V at (N, S) states to their (N,) returns, `critic_steps` times, on evenly spread rows."""
        parts = max(1, len(states) // ROWS)
        for step in range(self.config.critic_steps):
            rows = slice(step % parts, None, parts)
            loss = (self(states[rows]) - returns[rows]).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        optimiser.zero_grad()


def advantages(
    rewards: NDArray[np.float64], values: NDArray[np.float64], lengths: NDArray[np.int64], config: CriticConfig
) -> NDArray[np.float64]:
    """(M, T) generalised advantages: sum over l of (gamma lambda)^l (r_{t+l} + gamma V_{t+l+1} - V_{t+l}).

    rewards: (M, T), of arriving in s_{t+1}; values: (M, T+1); lengths: (M,). A trajectory is a window on an endless
    task: its last state counts with its value. Beyond a trajectory's length the advantages are zero.
    """
    gamma = config.discount
    surprise = rewards + gamma * values[:, 1:] - values[:, :-1]  # (M, T)
    surprise[np.arange(rewards.shape[1]) >= lengths[:, None]] = 0.0
    total = np.zeros(len(rewards))
    result = np.zeros_like(surprise)
    for t in reversed(range(rewards.shape[1])):
        total = surprise[:, t] + gamma * config.trace * total
        result[:, t] = total
    return result

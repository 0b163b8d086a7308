"""RND (Burda et al. 2018): a state is as new as a trained network is wrong about a frozen random one there.

    bonus = mean over outputs of (predictor(x) - target(x))^2,    x = clip((s' - mean) / deviation, -5, 5)

Mean and deviation are of all states so far. Both networks start orthogonal; the predictor has one layer more.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn

from mepol.rewards.reward import IntrinsicReward, Transitions
from mepol.rewards.running import RunningMoments

REACH = 5.0  # deviations that an input may lie off its mean


class Rnd(IntrinsicReward):
    """size: coordinates of a state; width: of the hidden layers; outputs: numbers that are predicted; rate: Adam's."""

    def __init__(self, size: int, width: int = 128, outputs: int = 64, rate: float = 1e-4) -> None:
        super().__init__()
        self.inputs = RunningMoments(size)
        self.target = _network(size, width, width, outputs).requires_grad_(False)
        self.predictor = _network(size, width, width, width, outputs)
        self._optimiser = torch.optim.Adam(self.predictor.parameters(), lr=rate)

    @torch.no_grad()
    def reward(self, transitions: Transitions) -> Tensor:
        """(B,) mean squared error at the states that were reached; they are in the mean and deviation already."""
        self.inputs.watch(transitions.next_obs)
        return self._error(transitions.next_obs)

    def update(self, transitions: Transitions) -> None:
        """One step of the predictor towards the target."""
        self._optimiser.zero_grad()
        self._error(transitions.next_obs).mean().backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()

    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """Name -> optimiser."""
        return {"predictor": self._optimiser}

    def _error(self, states: Tensor) -> Tensor:
        x = ((states - self.inputs.mean) / self.inputs.deviation).clamp(-REACH, REACH)
        error: Tensor = (self.predictor(x) - self.target(x)).square().mean(1)
        return error


def _network(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for i, o in itertools.pairwise(widths):
        linear = nn.Linear(i, o)
        nn.init.orthogonal_(linear.weight, math.sqrt(2))
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])

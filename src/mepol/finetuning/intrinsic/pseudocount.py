"""Pseudocount (Bellemare et al. 2016): a state is as new as a density gains by learning it.

    gain  = max(0, ln p'(s) - ln p(s))         p' is p after one step on s alone
    count = 1 / (exp(c gain / sqrt(n)) - 1)    n states learnt so far, this one included
    bonus = 1 / sqrt(count)

The density is a VAE read with a fixed code noise of ones, as in the codebase that the paper used. The bonus is paid
once, when the transition is stored; measuring it is learning it, so `update` has nothing left to do.

`prediction_gain_count` is the formula alone: any density model can be put before it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mepol.finetuning.intrinsic.vae import CODE, LEARNING_RATE, Vae
from mepol.rewards.reward import IntrinsicReward, Transitions


def prediction_gain_count(gain: float, n: int, c: float = 1.0) -> float:
    """Visits that a gain in ln p, in nats, stands for after n states; infinite where nothing was gained."""
    excess = math.expm1(min(c * max(gain, 0.0) / math.sqrt(n), 700.0))  # exp overflows a little above
    return math.inf if excess == 0 else 1 / excess


class Pseudocount(IntrinsicReward):
    """state_dim S; c scales the gain."""

    online = True
    learnt: Tensor

    def __init__(self, state_dim: int, c: float = 1.0) -> None:
        super().__init__()
        self.c = c
        self.density = Vae(state_dim)
        self.register_buffer("learnt", torch.zeros((), dtype=torch.int64))
        self._optimiser = torch.optim.Adam(self.density.parameters(), lr=LEARNING_RATE)
        self._ones = torch.ones(1, CODE)

    def reward(self, transitions: Transitions) -> Tensor:
        """(B,) 1 / sqrt(pseudo-count) of the state that each transition starts from, learnt one after another."""
        return torch.tensor([self._count(state) ** -0.5 for state in transitions.obs.unsqueeze(1)])

    def update(self, transitions: Transitions) -> None:
        """Nothing: `reward` has learnt the states already."""

    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """Name -> optimiser."""
        return {"density": self._optimiser}

    def _count(self, state: Tensor) -> float:
        """Pseudo-count of one state (1, S), which is learnt on the way."""
        before = self._log_density(state)
        self._optimiser.zero_grad()
        self.density.loss(state, torch.randn(1, CODE)).backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        self.learnt += 1
        return prediction_gain_count(self._log_density(state) - before, int(self.learnt), self.c)

    @torch.no_grad()
    def _log_density(self, state: Tensor) -> float:
        return float(self.density.log_density(state, self._ones))

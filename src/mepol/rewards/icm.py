"""ICM (Pathak et al. 2017): curiosity is the error of predicting the next state in a learnt embedding.

    bonus = || phi(s') - forward(phi(s), a) ||_2

The embedding is shaped by the inverse model, which must tell the action from phi(s) and phi(s'). One Adam fits all
three on forward + inverse mean squared error, one to one, as in the codebase that the paper used (which does not stop
the forward loss at the embedding).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mepol.rewards.reward import IntrinsicReward, Transitions

WIDTH = 300


class Icm(IntrinsicReward):
    """state_dim S, action_dim A; width W of the hidden layers and of the embedding; rate: Adam's."""

    def __init__(self, state_dim: int, action_dim: int, width: int = WIDTH, rate: float = 1e-3) -> None:
        super().__init__()
        self.embedding = _network(state_dim, width)
        self.forward_model = _network(width + action_dim, width)
        self.inverse_model = nn.Linear(2 * width, action_dim)
        self._optimiser = torch.optim.Adam(self.parameters(), lr=rate)

    @torch.no_grad()
    def reward(self, transitions: Transitions) -> Tensor:
        """(B,) length of the prediction's error, in units of the embedding."""
        length: Tensor = torch.linalg.vector_norm(self._forward_error(transitions)[0], dim=1)
        return length

    def update(self, transitions: Transitions) -> None:
        """One step on both losses."""
        error, now, after = self._forward_error(transitions)
        guess = self.inverse_model(torch.cat([now, after], dim=1))
        loss = error.square().mean() + (guess - transitions.actions).square().mean()
        self._optimiser.zero_grad()
        loss.backward()
        self._optimiser.step()

    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """Name -> optimiser."""
        return {"all": self._optimiser}

    def _forward_error(self, transitions: Transitions) -> tuple[Tensor, Tensor, Tensor]:
        """(B, W) error, phi(s) and phi(s')."""
        now, after = self.embedding(transitions.obs), self.embedding(transitions.next_obs)
        return after - self.forward_model(torch.cat([now, transitions.actions], dim=1)), now, after


def _network(size: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

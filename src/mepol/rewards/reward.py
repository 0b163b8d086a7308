"""What an intrinsic reward is: it pays for transitions, and learns from them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Transitions:
    """B steps: obs (B, S), actions (B, A) in [-1, 1], next_obs (B, S), all float32."""

    obs: Tensor
    actions: Tensor
    next_obs: Tensor

    def at(self, rows: Tensor) -> Transitions:
        """Those of them in `rows`, (b,) int64."""
        return Transitions(self.obs[rows], self.actions[rows], self.next_obs[rows])


class IntrinsicReward(nn.Module):
    """Base of the methods. Its parameters, buffers and `optimisers` are all of its state: a run can be resumed."""

    online = False
    """Whether the bonus is paid once, when a transition is stored."""

    def reward(self, transitions: Transitions) -> Tensor:
        """(B,) the bonus of each transition, in the method's own unit."""
        raise NotImplementedError

    def update(self, transitions: Transitions) -> None:
        """Learn from the transitions."""
        raise NotImplementedError

    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """Name -> optimiser."""
        raise NotImplementedError

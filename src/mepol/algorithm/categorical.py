"""A policy of choices: an action is one number of 0 .. n-1, or several, each drawn by probabilities of the state."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mepol.algorithm.pictures import Picture
from mepol.algorithm.policy import NetworkPolicy, Responder, in_blocks
from mepol.errors import CollapseError


class CategoricalPolicy(NetworkPolicy):
    """a_i ~ softmax(logits_i(s)) over 0 .. n_i - 1, one column for each of A choices, independent given the state.

    choices: (n_1, .., n_A). The network gives their sum(n_i) logits side by side; all of them zero is uniform play.
    Actions are (..., A) float32 that hold whole numbers, as a batch stores them.

    >>> import numpy as np
    >>> from mepol.algorithm import CategoricalPolicy
    >>> policy = CategoricalPolicy(4, (2, 3), hidden=(64, 64))
    >>> policy.draw_weights(np.random.default_rng(0))
    >>> policy.act(np.zeros((5, 4)), np.random.default_rng(1)).shape
    (5, 2)
    """

    def __init__(
        self,
        state_dim: int,
        choices: tuple[int, ...],
        hidden: tuple[int, ...] = (300, 300),
        picture: Picture | None = None,
    ) -> None:
        super().__init__(state_dim, sum(choices), hidden, picture)
        self.choices = choices
        self._ends = np.cumsum(choices).tolist()  # where each choice's logits end

    def logits(self, states: Tensor) -> tuple[Tensor, ...]:
        """(..., S) states -> the logits (..., n_i) of each choice."""
        parts: tuple[Tensor, ...] = torch.split(self.output(states), list(self.choices), dim=-1)
        return parts

    def log_prob(self, states: Tensor, actions: Tensor) -> Tensor:
        """(..., S), (..., A) -> (...) ln pi(a | s), in nats; many rows go through the network a block at a time."""
        return in_blocks(self._log_prob, states, actions)

    def _log_prob(self, states: Tensor, actions: Tensor) -> Tensor:
        chosen = actions.long()
        parts = [
            logits.log_softmax(-1).gather(-1, chosen[..., i : i + 1]) for i, logits in enumerate(self.logits(states))
        ]
        return torch.cat(parts, -1).sum(-1)

    def noise(
        self, rows: tuple[int, ...], rng: np.random.Generator, before: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """(*rows, A) noise of one step, as `act` draws it: uniform in [0, 1), whatever it was before."""
        return rng.random((*rows, len(self.choices)), dtype=np.float32)

    def predict(  # type: ignore[override]  # a space of choices holds whole numbers
        self, obs: NDArray[np.floating], *rest: Any, **options: Any
    ) -> tuple[NDArray[np.int64], Any]:
        """As of `NetworkPolicy`, in whole numbers from 0: (A,) or (M, A), and where A is one, () or (M,).

        So a Discrete or MultiDiscrete space that starts at 0 has them; to another's `start` they are to be added.
        """
        actions, state = super().predict(obs, *rest, **options)
        if np.isnan(actions).any():
            raise CollapseError("the policy's logits are NaN or infinite: its weights or the observation are")
        whole = actions.astype(np.int64)
        return (whole[..., 0] if len(self.choices) == 1 else whole), state

    def responder(self, of: NDArray[np.int64] | None = None) -> Responder:
        """The policy of this moment as a function: (..., S) observations, (..., A) uniform noise -> (..., A) actions.

        Noise u takes the first choice whose cumulative mass exceeds u times the whole: no choice without any mass is
        ever taken, however the sums round. Without noise it takes the likeliest, the first of equal ones.
        """
        network, ends = self.snapshot(), self._ends[:-1]

        def respond(obs: NDArray[np.floating], noise: NDArray[np.float32] | None) -> NDArray[np.float32]:
            out = network(obs).astype(np.float64)
            parts = np.split(out, ends, axis=-1)
            if noise is None:
                taken = [part.argmax(-1) for part in parts]
            else:
                taken = [_drawn(part, noise[..., i : i + 1]) for i, part in enumerate(parts)]
            actions = np.stack(taken, axis=-1).astype(np.float32)
            actions[~np.isfinite(out).all(-1)] = np.nan  # a policy without numbers is told, not played as choice 0
            return actions

        return respond


def _drawn(logits: NDArray[np.float64], noise: NDArray[np.float32]) -> NDArray[np.int64]:
    """(..., n) logits, (..., 1) noise in [0, 1) -> (...) which choice."""
    mass = np.exp(logits - logits.max(-1, keepdims=True)).cumsum(-1)
    taken: NDArray[np.int64] = (mass > noise * mass[..., -1:]).argmax(-1)
    return taken

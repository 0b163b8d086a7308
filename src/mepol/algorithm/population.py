"""Several Gaussian policies on one network, whose states are pooled: Eq. 1 to 3 stay as they are.

One stochastic policy that is to cover a plane must diffuse over it; of several, each can run one way. The trunk is
shared; every policy has a head of its own, mean and spread. Trajectory i is acted by head i mod `size`, for its whole
length: who reads a batch knows the head from the trajectory's number, and nothing else needs to be stored.
(The idea of pooled states is that of K-Myriad, 2026.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mepol.algorithm.policy import ROWS, Carrying, GaussianPolicy, NetworkPolicy, Responder, next_noise


class PopulationPolicy(NetworkPolicy):
    """`size` Gaussians, a ~ N(mean_h(s), diag(exp(log_std_h))^2), in trajectory i the one with h = i mod size.

    Rows of one call of `act` are those of trajectories 0, 1, ... `widths` is (S, hidden layers, size A).
    correlation: of each one's noise, as a GaussianPolicy has it.
    """

    def __init__(
        self, state_dim: int, action_dim: int, size: int, hidden: tuple[int, ...] = (300, 300), correlation: float = 0.0
    ) -> None:
        super().__init__(state_dim, size * action_dim, hidden)
        self.size, self.action_dim, self.correlation = size, action_dim, correlation
        self.log_std = nn.Parameter(torch.zeros(size, action_dim))

    @torch.no_grad()
    def initialise(self, rng: np.random.Generator, *, log_std: float) -> None:
        """Weights as the paper draws them, a constant log-std. Heads differ by their weights, not yet by what they do
        where the mean is then brought to zero.
        """
        self.draw_weights(rng)
        self.log_std.fill_(log_std)

    @torch.no_grad()
    def head(self, number: int) -> GaussianPolicy:
        """One of them, as a policy of its own."""
        policy = GaussianPolicy(self.widths[0], self.action_dim, self.widths[1:-1], self.correlation)
        rows = slice(number * self.action_dim, (number + 1) * self.action_dim)
        own, last = self.state_dict(), f"layers.{len(self.layers) - 1}."
        cut = {key: value[rows] if key.startswith(last) else value for key, value in own.items()}
        policy.load_state_dict({**cut, "log_std": self.log_std[number]})
        return policy

    def log_prob(self, states: Tensor, actions: Tensor) -> Tensor:
        """(N, S), (N, A) -> (N,) ln of the density of the actions where any head may have acted, each as likely."""
        every = [
            self._normal(self._noise_of(states, actions, head), head)
            for head in (torch.full((len(states),), h) for h in range(self.size))
        ]
        return torch.logsumexp(torch.stack(every), dim=0) - math.log(self.size)

    def log_prob_along(self, states: Tensor, actions: Tensor, first: Tensor, rows: slice = slice(None)) -> Tensor:
        """ln pi of the steps in `rows` under the head of their trajectory, in nats, each given the step before it.

        states (N, S), actions (N, A): trajectory after trajectory; first (N,): which steps begin one.
        """
        at = torch.arange(len(states))[rows]
        heads = ((first.cumsum(0) - 1) % self.size)[at]
        noise, first = self._noise_of(states[at], actions[at], heads), first[at]
        if not self.correlation:
            return self._normal(noise, heads)
        keep = math.sqrt(1 - self.correlation**2)
        before = self._noise_of(states[at - 1], actions[at - 1], heads)  # where a trajectory begins it is not read
        fresh = torch.where(first[:, None], noise, (noise - self.correlation * before) / keep)
        return self._normal(fresh, heads) - (~first).to(noise.dtype) * (math.log(keep) * self.action_dim)

    def _noise_of(self, states: Tensor, actions: Tensor, heads: Tensor) -> Tensor:
        """(N, A) the standard normal noise that makes the actions out of the means of heads (N,); a block at a time."""
        parts = []
        for s, a, h in zip(*(torch.split(x, ROWS) for x in (states, actions, heads)), strict=True):
            mean = self.output(s).view(len(s), self.size, self.action_dim)[torch.arange(len(s)), h]
            parts.append((a - mean) * torch.exp(-self.log_std[h]))
        return torch.cat(parts)

    def _normal(self, z: Tensor, heads: Tensor) -> Tensor:
        """(N, A) noise of heads (N,) -> (N,) ln of the density of the actions that it makes."""
        own = self.log_std.sum(-1)[heads]
        return -0.5 * z.square().sum(-1) - own - 0.5 * math.log(2 * math.pi) * self.action_dim

    def begin(self, m: int, rng: np.random.Generator) -> Any:
        """What acts in the next M trajectories."""
        return Carrying(self, m)

    def noise(
        self, rows: tuple[int, ...], rng: np.random.Generator, before: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """(*rows, A) noise of one step; before: that of the step before, where there was one."""
        return next_noise((*rows, self.action_dim), rng, before, self.correlation)

    def responder(self, of: NDArray[np.int64] | None = None) -> Responder:
        """The policies of this moment as a function: (M, S) observations, (M, A) noise -> mean + std * noise.

        of: (M,) numbers of the trajectories that the rows are of; by default 0, 1, ...
        """
        network, std = self.snapshot(), np.exp(self.log_std.detach().numpy())

        def respond(obs: NDArray[np.floating], noise: NDArray[np.float32] | None) -> NDArray[np.float32]:
            rows = np.atleast_2d(obs)
            heads = (np.arange(len(rows)) if of is None else of) % self.size
            mean = network(rows).reshape(len(rows), self.size, self.action_dim)[np.arange(len(rows)), heads]
            found: NDArray[np.float32] = mean if noise is None else mean + np.atleast_2d(noise) * std[heads]
            return found[0] if np.ndim(obs) == 1 else found

        return respond

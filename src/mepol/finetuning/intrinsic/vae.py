"""A variational autoencoder as a density of observations, for SMM and Pseudocount.

ln p(x) is taken to be minus the squared error of the reconstruction, summed over coordinates, up to a constant:
the measure of the state-marginal-matching codebase, which the paper used.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

CODE = 128
WIDTH = 150
BETA = 0.5  # weight of the code's KL
LEARNING_RATE = 0.01


class Vae(nn.Module):
    """in -> 150 -> 150 -> code 128 (mean, ln variance) -> 150 -> 150 -> in, ReLU."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(size, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2 * CODE)
        )
        self.decoder = nn.Sequential(
            nn.Linear(CODE, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, size)
        )

    def log_density(self, x: Tensor, noise: Tensor) -> Tensor:
        """(B, S) observations, (B, 128) code noise -> (B,) ln p up to a constant."""
        return -self._pass(x, noise)[0].square().sum(1)

    def loss(self, x: Tensor, noise: Tensor) -> Tensor:
        """Mean squared error over all elements + 0.5 times the mean KL of the codes to N(0, 1), in nats."""
        error, mean, log_variance = self._pass(x, noise)
        kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        return error.square().mean() + BETA * kl

    def _pass(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        code = mean + noise * torch.exp(0.5 * log_variance)
        return self.decoder(code) - x, mean, log_variance


def sampled(x: Tensor) -> Tensor:
    """(B, 128) fresh code noise for the rows of x."""
    return torch.randn(len(x), CODE)

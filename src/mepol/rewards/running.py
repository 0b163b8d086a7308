"""Mean and spread of all that was ever seen, kept as a stream goes by."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RunningMoments(nn.Module):
    """Mean and variance of values of one shape, by batches (Chan et al. 1979); before the first batch 0 and 1."""

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("variance", torch.ones(shape))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def watch(self, values: Tensor) -> None:
        """Take in (N, *shape) values, N at least 1."""
        new, old = len(values), int(self.count)
        mean = values.double().mean(0)
        variance = values.double().var(0, correction=0)
        gap, total = mean - self.mean, old + new
        self.variance.copy_((old * self.variance + new * variance + gap.square() * old * new / total) / total)
        self.mean.copy_(self.mean + gap * new / total)
        self.count += new

    @property
    def deviation(self) -> Tensor:
        """Square root of the variance; 1 where nothing ever varied."""
        return torch.where(self.variance > 0, self.variance.sqrt(), torch.ones_like(self.variance))

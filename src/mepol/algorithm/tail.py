"""Several objectives, and the mean of the lowest share of them: the conditional value at risk (CVaR).

    CVaR_alpha = 1/alpha  integral over the lowest alpha of the distribution of H        (alpha = 1: its mean)

of values H_1 <= H_2 <= ... with shares p_b: the value b counts with what of p_b lies below alpha, over alpha. Where
alpha cuts through a value, that part of it counts. (Mutti, Mancassola, Restelli 2022, alpha-MEPOL: H_b is the entropy
of a mini-batch of trajectories in one environment, drawn at random. Their optional baseline, a factor 1 - VaR, is left
out: above 1 nat it turns the ascent round.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mepol.algorithm.landscape import Landscape


def tail_weights(values: ArrayLike, shares: ArrayLike, risk: float) -> NDArray[np.float64]:
    """(B,) what each of `values` (B,) with `shares` (B,), which sum to 1, counts in their CVaR at `risk` (alpha).

    They sum to 1; of equal values the first counts first.

    >>> tail_weights([3.0, 1.0, 2.0, 4.0], [0.25] * 4, 0.375).round(3).tolist()
    [0.0, 0.667, 0.333, 0.0]
    """
    order = np.argsort(values, kind="stable")
    share = np.asarray(shares, dtype=np.float64)[order]
    below = np.cumsum(share) - share
    found = np.empty(len(order))
    found[order] = np.clip(risk - below, 0.0, share) / risk
    return found


@dataclass(frozen=True)
class TailLandscape:
    """The mean entropy of the lowest `risk` of some landscapes, whose particles lie one after the other in a batch.

    Which they are is decided anew for every weighting: at each step the worst are lifted. The trust region is of all.
    """

    parts: Sequence[Landscape]
    risk: float

    @cached_property
    def n(self) -> int:
        """Number of particles N, of all parts."""
        return sum(part.n for part in self.parts)

    def entropy(self) -> float:
        """CVaR of the parts' Eq. 1, in nats."""
        found = [part.entropy() for part in self.parts]
        return float(self._weights(found) @ np.array(found))

    def weighted(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """CVaR of the parts' Eq. 2 and mean over all particles of Eq. 3, in nats; each part normalises its weights."""
        own = torch.split(weights, [part.n for part in self.parts])
        found = [part.weighted(w / w.sum()) for part, w in zip(self.parts, own, strict=True)]
        chosen = self._weights([entropy.item() for entropy, _ in found])
        entropy = sum((float(c) * h for c, (h, _) in zip(chosen, found, strict=True) if c > 0), weights.new_zeros(()))
        kl = sum((part.n / self.n * kl for part, (_, kl) in zip(self.parts, found, strict=True)), weights.new_zeros(()))
        return entropy, kl

    def worth(self) -> NDArray[np.float64]:
        """(N,) the parts' worths, each around its own mean and times what its part counts; 0 where it does not."""
        chosen = self._weights([part.entropy() for part in self.parts])
        worths = [part.worth() for part in self.parts]
        return np.concatenate(
            [c * self.n / len(w) * (w - w.mean()) for c, w in zip(chosen, worths, strict=True)], dtype=np.float64
        )

    def _weights(self, entropies: Sequence[float]) -> NDArray[np.float64]:
        """(B,) of the parts: mini-batches were drawn with equal chances, however many particles they have."""
        count = len(self.parts)
        return tail_weights(entropies, np.full(count, 1 / count), self.risk)

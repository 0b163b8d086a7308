"""Rewards by the distance to the nearest other states: RE3 and APT.

    RE3 (Seo et al. 2021)      bonus = ln(1 + distance to the k-th nearest)                frozen random embedding
    APT (Liu and Abbeel 2021)  bonus = ln(1 + mean distance to the k nearest)              embedding trained by ICM

A state is not its own neighbour. Neighbours are sought among all states that are paid together, or in pools of them
that are drawn at random: the replay batches of the original methods.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mepol.errors import CollapseError
from mepol.neighbours import nearest
from mepol.rewards.icm import Icm
from mepol.rewards.reward import IntrinsicReward, Transitions
from mepol.rewards.running import RunningMoments


def pooled_distances(points: NDArray[np.float64], k: int, pool: int, workers: int = 1) -> NDArray[np.float64]:
    """(N, K) distances of each of (N, D) points to its k nearest others, in order.

    pool: points among which they are sought, about; 0 for all N. The pools are drawn with torch's generator. Where a
    pool has k points or fewer, all others in it count, and the farthest of them stands for those that are missing.
    workers: threads of the search; the result does not depend on it.
    """
    n = len(points)
    parts = max(1, n // pool) if pool else 1
    order = torch.randperm(n).numpy() if parts > 1 else np.arange(n)
    found = np.zeros((n, k))
    for rows in np.array_split(order, parts):
        if len(rows) > 1:
            near = nearest(points[rows], min(k, len(rows) - 1), workers)[1]
            found[rows] = np.pad(near, ((0, 0), (0, k - near.shape[1])), mode="edge")
    return found


class _Spread(IntrinsicReward):
    """What both share: an embedding, distances in it, and their unit.

    k: neighbours; pool, workers: see `pooled_distances`; relative: whether distances are measured in units of their
    running mean, as URLB's APT does, so that the logarithm does not depend on the embedding's scale.
    """

    def __init__(self, k: int, pool: int, relative: bool, workers: int) -> None:
        super().__init__()
        self._k, self._pool, self._relative, self._workers = k, pool, relative, workers
        self.distance = RunningMoments()

    def embed(self, states: Tensor) -> Tensor:
        """(B, S) -> (B, E)."""
        raise NotImplementedError

    def summary(self, distances: Tensor) -> Tensor:
        """(B, K) distances in order -> (B,) the one that is paid for."""
        raise NotImplementedError

    @torch.no_grad()
    def reward(self, transitions: Transitions) -> Tensor:
        """(B,) ln(1 + distance) of the states that were reached."""
        points = self.embed(transitions.next_obs).double().numpy()
        if not np.isfinite(points).all():
            raise CollapseError("the embedding that distances are taken in is NaN or infinite; lower reward_rate")
        far = self.summary(torch.from_numpy(pooled_distances(points, self._k, self._pool, self._workers)))
        if self._relative:
            self.distance.watch(far)
            far = far / self.distance.mean.clamp_min(torch.finfo(torch.float32).tiny)
        return torch.log1p(far).float()


class Re3(_Spread):
    """size: coordinates of a state; width, outputs: of the frozen random network, width 0 for none."""

    def __init__(
        self,
        size: int,
        width: int = 128,
        outputs: int = 64,
        *,
        k: int = 3,
        pool: int = 0,
        relative: bool = False,
        workers: int = 1,
    ) -> None:
        super().__init__(k, pool, relative, workers)
        layers = (nn.Linear(size, width), nn.ReLU(), nn.Linear(width, outputs)) if width else ()
        self.encoder = nn.Sequential(*layers).requires_grad_(False)

    def embed(self, states: Tensor) -> Tensor:
        """(B, S) -> (B, outputs), or the states themselves."""
        embedded: Tensor = self.encoder(states)
        return embedded

    def summary(self, distances: Tensor) -> Tensor:
        """The distance to the k-th."""
        return distances[:, -1]

    def update(self, transitions: Transitions) -> None:
        """Nothing: the network stays as it was drawn."""

    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """None."""
        return {}


class Apt(_Spread):
    """icm: what trains the embedding, or None for distances between the states themselves."""

    def __init__(
        self, icm: Icm | None, *, k: int = 12, pool: int = 1024, relative: bool = True, workers: int = 1
    ) -> None:
        super().__init__(k, pool, relative, workers)
        self.icm = icm

    def embed(self, states: Tensor) -> Tensor:
        """(B, S) -> (B, width of ICM), or the states themselves."""
        embedded: Tensor = states if self.icm is None else self.icm.embedding(states)
        return embedded

    def summary(self, distances: Tensor) -> Tensor:
        """The mean distance to the k nearest."""
        return distances.mean(1)

    def update(self, transitions: Transitions) -> None:
        """One step of ICM."""
        if self.icm is not None:
            self.icm.update(transitions)

    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """Those of ICM."""
        return {} if self.icm is None else self.icm.optimisers()

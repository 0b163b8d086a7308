"""The one record that crosses from sampling to learning, and its steps as a climb reads them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mepol.algorithm.policy import Policy, Remembering
from mepol.errors import EnvironmentFault


@dataclass(frozen=True)
class Batch:
    """M trajectories of at most T steps, padded; what lies beyond a trajectory's length is never read.

    states:  (M, T+1, S) float64, s_0 .. s_T as the environment gave them; rows of pictures are uint8.
    actions: (M, T, A) float32, as the policy drew them (the environment clips them itself).
    lengths: (M,) int64, steps taken by each trajectory, 1 .. T.
    truth:   (M, T+1, G) float64, the true states where those observed are pictures and the environment tells them.
    log_weights: (M, T) float64, ln of what the particle after each step counts, up to a constant, in a union of batches
    (reuse.py); None where all count alike.

    >>> import numpy as np, mepol
    >>> batch = mepol.Batch(np.zeros((2, 4, 3)), np.zeros((2, 3, 1), dtype=np.float32), np.array([3, 2]))
    >>> batch.size, batch.particles((0, 1)).shape
    (5, (5, 2))
    """

    states: NDArray[Any]
    actions: NDArray[np.float32]
    lengths: NDArray[np.int64]
    truth: NDArray[np.float64] | None = None
    log_weights: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        m, t = self.actions.shape[:2]
        if self.states.ndim != 3 or self.states.shape[:2] != (m, t + 1) or self.lengths.shape != (m,):
            raise EnvironmentFault(
                f"a batch needs states (M, T+1, S), actions (M, T, A), lengths (M,); "
                f"got {self.states.shape}, {self.actions.shape}, {self.lengths.shape}"
            )
        if m == 0 or self.lengths.min() < 1 or self.lengths.max() > t:
            raise EnvironmentFault(f"every trajectory needs a length in [1, {t}], got {self.lengths.tolist()}")
        if self.truth is not None and (self.truth.ndim != 3 or self.truth.shape[:2] != (m, t + 1)):
            raise EnvironmentFault(f"a batch needs true states (M, T+1, G) for {(m, t + 1)}, got {self.truth.shape}")
        if self.states.dtype == np.uint8:  # bytes are finite, and the true states are checked as they come
            return
        finite = np.isfinite(self.states).all(axis=2) | ~self.visited(include_start=True)
        if not finite.all():
            env, step = (int(i) for i in np.argwhere(~finite)[0])
            raise EnvironmentFault(f"environment {env} returned a NaN or infinite state at step {step}")

    @property
    def size(self) -> int:
        """Number of particles N: steps taken by all trajectories."""
        return int(self.lengths.sum())

    def first(self, steps: int) -> Batch:
        """The same trajectories, cut after `steps` steps."""
        seen, taken = np.s_[:, : steps + 1], np.s_[:, :steps]
        return Batch(
            self.states[seen],
            self.actions[taken],
            np.minimum(self.lengths, steps),
            _some(self.truth, seen),
            _some(self.log_weights, taken),
        )

    @property
    def placed(self) -> NDArray[Any]:
        """(M, T+1, G) what says where a trajectory was: the true states where they are known, else those observed."""
        return self.states if self.truth is None else self.truth

    def part(self, rows: slice) -> Batch:
        """The trajectories in `rows` alone."""
        own = self.states[rows], self.actions[rows], self.lengths[rows]
        return Batch(*own, _some(self.truth, rows), _some(self.log_weights, rows))

    @staticmethod
    def joined(batches: Sequence[Batch]) -> Batch:
        """Batches of one horizon, one after the other; weights are nobody's but a union's."""
        whole = [np.concatenate([getattr(b, n) for b in batches]) for n in ("states", "actions", "lengths")]
        truths = [batch.truth for batch in batches if batch.truth is not None]
        return Batch(whole[0], whole[1], whole[2], np.concatenate(truths) if truths else None)

    def visited(self, *, include_start: bool = False) -> NDArray[np.bool_]:
        """(M, T) mask of the steps taken; with `include_start`, (M, T+1) mask of the states seen."""
        steps = np.arange(self.actions.shape[1] + include_start)
        return steps < self.lengths[:, None] + include_start

    def discounted(self, gamma: float) -> Tensor | None:
        """(N,) float64 normalised weights of the particles, gamma^t of the one after t steps; None where all are equal.

        They make of the particles the discounted state distribution, cut at the horizon. Weights of the batch's own
        count besides.
        """
        if gamma == 1.0 and self.log_weights is None:
            return None
        visited = self.visited()
        steps = np.broadcast_to(np.arange(self.actions.shape[1]), self.actions.shape[:2])[visited]
        discount = steps * math.log(gamma)
        own = discount if self.log_weights is None else discount + self.log_weights[visited]
        return torch.softmax(torch.from_numpy(own), 0)

    def particles(self, features: tuple[int, ...]) -> NDArray[np.float64]:
        """(N, D) the chosen coordinates of s_1 .. s_length of each trajectory in turn (s_0 is not a particle)."""
        columns: NDArray[np.float64] = self.states[:, 1:, list(features)]
        return columns[self.visited()]


def _some(array: NDArray[np.float64] | None, where: Any) -> NDArray[np.float64] | None:
    return None if array is None else array[where]


@dataclass(frozen=True)
class Paths:
    """The steps of a batch as a climb reads them: visited ones only, trajectory after trajectory."""

    states: Tensor  # (N, S) float32, or uint8 of pictures: s_0 .. s_{length-1}
    actions: Tensor  # (N, A) float32
    visited: Tensor  # (M, T) bool
    first: Tensor  # (N,) bool, whether a step begins its trajectory
    prior: Tensor | None = None  # (N,) float64, what each counts before any climb; None where all count alike

    @staticmethod
    def of(batch: Batch, gamma: float = 1.0) -> Paths:
        """The paths of `batch`, in the order of `batch.particles`; gamma: discount of its states."""
        visited = batch.visited()
        states, actions = batch.states[:, :-1][visited], batch.actions[visited]
        if states.dtype != np.uint8:
            states = states.astype(np.float32)
        first = np.broadcast_to(np.arange(visited.shape[1]) == 0, visited.shape)[visited]
        tensors = [torch.from_numpy(array) for array in (states, actions, visited, first)]
        return Paths(tensors[0], tensors[1], tensors[2], tensors[3], batch.discounted(gamma))

    def log_prob(self, policy: Policy, rows: slice = slice(None)) -> Tensor:
        """(N,) ln pi(a | s) of the steps in `rows`, in nats, given the step before where the policy looks at it.

        A climb asks a policy here and nowhere else.
        """
        if isinstance(policy, Remembering):
            return policy.log_prob_along(self.states, self.actions, self.first, rows)
        return policy.log_prob(self.states[rows], self.actions[rows])

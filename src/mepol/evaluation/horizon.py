"""Curves over the testing horizon h: the h-step entropy H(d_h), the average entropy H(d̄_h), and mixing time.

d_h is the distribution of the state after h steps, d̄_h the average of d_1 .. d_h: what MEPOL maximises at h = T.
Both entropies are Eq. 1 on the particles of one fresh batch. H(d_h) rests on one particle a trajectory, so it wants
many trajectories: with M of them, k must be well below M.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mepol.algorithm.batch import Batch
from mepol.envs.coordinates import Features, Grid, cells_of, features_of
from mepol.errors import ConfigError, ParticleError
from mepol.estimators import entropy
from mepol.neighbours import Near, Workers, neighbours

MAX_PARTICLES = 100_000  # of one average entropy; more are thinned at random, which leaves the estimate consistent


@dataclass(frozen=True)
class HorizonRow:
    """Both entropies at one testing horizon, nats, with the particles that each rests on."""

    h: int
    step_entropy: float
    step_particles: int
    average_entropy: float
    average_particles: int


def horizon_curve(
    batch: Batch,
    horizons: Sequence[int],
    *,
    features: Features,
    k: int,
    eps: float = 0.0,
    seed: int = 0,
    workers: Workers = -1,
    near: Callable[..., Near] = neighbours,
) -> list[HorizonRow]:
    """H(d_h) and H(d̄_h) at each of `horizons`, on the chosen features.

    workers: threads of the search, or a pool; near: who searches, in units of its own (`Domain.near`).
    """
    longest = batch.actions.shape[1]
    if bad := [h for h in horizons if not 1 <= h <= longest]:
        raise ConfigError(f"horizon = {bad[0]} is not possible: it must be from 1 to the {longest} steps sampled")
    rows = []
    for h in sorted(set(horizons)):
        at, until = states_at(batch, h, features), states_until(batch, h, features, seed=seed)
        if len(at) <= k:
            raise ParticleError(
                f"{len(at)} trajectories reach step {h}, and their entropy needs more than k = {k}; "
                "sample more trajectories, or lower k"
            )
        step, average = (entropy(near(states, k, eps=eps, workers=workers)) for states in (at, until))
        rows.append(HorizonRow(h, step, len(at), average, len(until)))
    return rows


def states_at(batch: Batch, h: int, features: Features) -> NDArray[np.float64]:
    """(M', D) features of s_h in the trajectories that reach step h: draws from d_h."""
    return features_of(batch.states[:, h], batch.lengths >= h, features)


def states_until(
    batch: Batch, h: int, features: Features, *, most: int = MAX_PARTICLES, seed: int = 0
) -> NDArray[np.float64]:
    """(N', D) features of s_1 .. s_h, at most `most` of them, drawn without replacement: draws from d̄_h."""
    states = features_of(batch.states[:, 1 : h + 1], batch.visited()[:, :h], features)
    if len(states) <= most:
        return states
    return states[np.random.default_rng(seed).choice(len(states), most, replace=False)]


# --- Mixing time --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mixing:
    """When the distribution over a grid's cells stops changing by more than `threshold` a step."""

    steps: int | None
    """t_mix: the first t from which on no change above the threshold is certain; None if not within the batch."""
    threshold: float
    """Mixing threshold epsilon, a probability."""
    noise: float
    """Change, in the later half of the batch, that M trajectories could not tell from none."""
    changes: NDArray[np.float64]
    """(T,) part of sup |d_t - d_{t-1}| that is certain, at t = 1 .. T."""

    @property
    def resolved(self) -> bool:
        """Whether the threshold lies above the noise; if not, `steps` is only a lower bound."""
        return self.noise <= self.threshold


def mixing_time(batch: Batch, grid: Grid, *, threshold: float = 0.02, confidence: float = 0.95) -> Mixing:
    """The paper's t_mix, {t : sup_s |d_t(s) - d_{t-1}(s)| <= epsilon}, with cells for states.

    d_t and d_{t-1} are counted on the same trajectories, so their difference in a cell is the mean over trajectories
    of "entered" minus "left", and its standard error is known. A plain supremum over many noisy cells would never
    fall below a small threshold: only what exceeds z standard errors counts as change, z being Bonferroni's for all
    cells and steps. The paper's set may hold accidental early steps; taken is the first t after the last
    certain violation.
    """
    if not 0 < threshold < 1:
        raise ConfigError(f"threshold = {threshold} is not possible: it must be between 0 and 1")
    horizon, size = batch.actions.shape[1], math.prod(grid.bins)
    cell = cells_of(batch.placed[..., list(grid.axes)], grid)  # (M, T+1, 2)
    flat = cell[..., 0] * grid.bins[1] + cell[..., 1]
    seen = len(np.unique(flat[batch.visited(include_start=True)]))
    z = float(-ndtri((1 - confidence) / (2 * seen * horizon)))
    changes, errors = np.zeros(horizon), np.zeros(horizon)
    for t in range(1, horizon + 1):
        here = batch.lengths >= t
        entered, left = _crossings(flat[here, t - 1], flat[here, t], size)
        m = max(int(here.sum()), 1)
        change = (entered - left) / m
        error = z * np.sqrt(((entered + left) / m - change**2) / m)
        changes[t - 1], errors[t - 1] = max(float((np.abs(change) - error).max()), 0.0), float(error.max())
    late = np.flatnonzero(changes > threshold)
    steps = 1 if not late.size else int(late[-1]) + 2
    return Mixing(steps if steps <= horizon else None, threshold, float(errors[horizon // 2 :].max()), changes)


def _crossings(
    before: NDArray[np.int64], after: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many trajectories entered and left each of `size` cells."""
    moved = before != after
    return np.bincount(after[moved], minlength=size), np.bincount(before[moved], minlength=size)

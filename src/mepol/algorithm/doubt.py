"""Whether a mirror that an environment names is true, asked of a batch of steps.

If it is, the image of each step is a step that could have been. A linear forecast of the next state

    s_{t+1} - s_t ~ (1, s_t, a_t) B        B by least squares

that learns from steps and their images then has twice as many, and forecasts trajectories that it has not seen no worse
than one that learns from the steps alone. A mirror that turns a wrong sign or exchanges a wrong pair contradicts the
steps, and the forecast loses by it. What is linear nowhere, such as the rotation of a body that tumbles, passes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import t as student

from mepol.algorithm.batch import Batch
from mepol.algorithm.symmetry import Mirror, Symmetry

Array = NDArray[np.float64]
LOST = 0.02  # share of a coordinate's variance; to lose less says nothing of a mirror
FALSE_ALARM = 1e-3  # how likely a true mirror is doubted, at most, over all coordinates
RIDGE = 1e-6  # of each input's variance: inputs may be copies of each other


@dataclass(frozen=True)
class Doubt:
    """The coordinate of the state that a mirror forecasts least well.

    lost: share of its variance that images explain the less. errors: that in standard errors over the trajectories.
    """

    coordinate: int
    lost: float
    errors: float


def doubt(batch: Batch, symmetry: Symmetry) -> Doubt | None:
    """Why `symmetry` does not fit the steps of `batch`, of a policy that has it; None where nothing speaks against it.

    Each half of the M trajectories is forecast from the other. Fewer than four are too few to say anything.
    """
    visited = batch.visited()  # (M, T)
    rows = len(visited)
    if rows < 4:
        return None
    changes = np.diff(batch.states, axis=1).astype(np.float64)  # (M, T, S)
    states, actions = batch.states[:, :-1], batch.actions
    inputs = _inputs(states, actions)
    images = _inputs(_image(symmetry.states, states), _image(symmetry.actions, actions))
    scale = np.sqrt((inputs[visited] ** 2 + images[visited] ** 2).mean(0) / 2)
    inputs, images = inputs / np.maximum(scale, 1e-12), images / np.maximum(scale, 1e-12)
    turned = _image(symmetry.states, changes)
    worse = np.zeros((rows, changes.shape[2]))  # (M, S) squared error of the forecast with images, less that without
    for half in (0, 1):
        learnt = np.arange(rows) % 2 == half
        seen = visited & learnt[:, None]
        x, d = inputs[seen], changes[seen]
        alone, both = _fit(x, d), _fit(np.vstack([x, images[seen]]), np.vstack([d, turned[seen]]))
        for sign, forecast in ((-1, alone), (1, both)):
            error = (changes[~learnt] - inputs[~learnt] @ forecast) ** 2
            worse[~learnt] += sign * np.where(visited[~learnt, :, None], error, 0.0).sum(1)
    lost = worse.sum(0) / np.maximum(changes[visited].var(0) * visited.sum(), 1e-30)  # (S,)
    errors = worse.mean(0) / np.maximum(worse.std(0, ddof=1) / np.sqrt(rows), 1e-30)
    errors = np.where(lost > LOST, errors, 0.0)
    worst = int(errors.argmax())
    if errors[worst] <= student.isf(FALSE_ALARM / len(errors), rows - 1):
        return None
    return Doubt(worst, float(lost[worst]), float(errors[worst]))


def _inputs(states: NDArray[np.floating], actions: NDArray[np.floating]) -> Array:
    """(M, T, 1 + S + A) what the forecast sees."""
    one = np.ones((*states.shape[:2], 1))
    found: Array = np.concatenate([one, states, actions], axis=2, dtype=np.float64)
    return found


def _image(mirror: Mirror, values: NDArray[np.floating]) -> Array:
    """(..., n) values in the mirror."""
    found: Array = mirror.image(torch.from_numpy(values.astype(np.float64))).numpy()
    return found


def _fit(x: Array, d: Array) -> Array:
    """(1 + S + A, S) least squares of d (N, S) by x (N, 1 + S + A)."""
    gram = x.T @ x + RIDGE * len(x) * np.eye(x.shape[1])
    return np.asarray(np.linalg.solve(gram, x.T @ d), dtype=np.float64)

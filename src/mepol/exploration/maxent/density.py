"""Density of a mixture's states: a kernel density estimate, after an optional PCA, at a bounded cost.

The estimate is scikit-learn's KernelDensity. Rewards come ten states at a time, so its tree is asked directly (the
checks around each call would cost more than the sums). The sum is taken over all points, by one matrix product, where
that is quicker (few points) and where the tree is wrong: it refines a bound on the sum, and the rounding that leaves,
1e-12 of a kernel's peak, is far above eps in 24 dimensions: a state nobody has seen would be paid nothing.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mepol.errors import ConfigError, MepolError
from mepol.exploration.maxent.config import MaxEntConfig
from mepol.neighbours import log_unit_ball

# Relative error that the tree may leave in a density: far below that of the estimate itself, and in few dimensions
# several times quicker than exact sums (docs/method/rivals.md, "Cost of the density").
TOLERANCE = 1e-2

# A tree serves for more points than this, in at most so many dimensions (docs/method/rivals.md, "Cost of the density").
FEW = 20_000
TREE_DIMENSIONS = 12

KernelMean = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""(n, C) places -> (n,) mean of the normalised kernels of all points there."""


@dataclass(frozen=True)
class Density:
    """p(s) of the states it was fitted to: what scikit-learn's KernelDensity gives."""

    kernel_mean: KernelMean
    mean: NDArray[np.float64]
    """(F,) origin of the components."""
    components: NDArray[np.float64] | None
    """(C, F) principal components, or None for the coordinates themselves."""
    points: int
    """States that each evaluation rests on."""

    @staticmethod
    def fit(states: NDArray[np.float64], config: MaxEntConfig, rng: np.random.Generator) -> Density:
        """Fit to `states` (N, F). At most `density_points` of them are kept, drawn without replacement.

        The kept ones are a sample of the same distribution: the estimate stays consistent, its relative error grows
        like 1 / sqrt(points in reach of the kernel), and the cost of a reward no longer depends on N.
        """
        n, width = states.shape
        mean, components = np.zeros(width), None
        if config.density_pca:
            if config.density_pca > min(n, width):
                raise ConfigError(
                    f"density_pca = {config.density_pca} is not possible: it must be at most the {width} coordinates"
                )
            decomposition, pools = _module("sklearn.decomposition"), _module("threadpoolctl")
            with pools.threadpool_limits(1, user_api="blas"):  # a sum over all states rounds as threads cut it
                pca = decomposition.PCA(config.density_pca, svd_solver="covariance_eigh").fit(states)
            mean, components = pca.mean_, pca.components_
        most = config.density_points
        kept = states if not most or n <= most else states[rng.choice(n, most, replace=False)]
        points = _project(kept, mean, components)
        over = _over_tree if len(points) > FEW and points.shape[1] <= TREE_DIMENSIONS else _over_all
        return Density(over(points, config.density_kernel, config.density_bandwidth), mean, components, len(points))

    def __call__(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n, F) states -> (n,) densities; 0 where a kernel of compact support reaches none."""
        return self.kernel_mean(_project(states, self.mean, self.components))


def _over_all(points: NDArray[np.float64], kernel: str, bandwidth: float) -> KernelMean:
    """Sums over all `points` (P, C)."""
    centre = points.mean(axis=0)  # |q - p|^2 is taken as |q|^2 + |p|^2 - 2 q.p: small numbers lose few digits
    scaled = (points - centre) / bandwidth
    twice, squares = 2.0 * scaled.T, np.sum(scaled**2, axis=1)
    log_volume = _log_volume(kernel, points.shape[1]) + points.shape[1] * np.log(bandwidth) + np.log(len(points))

    def kernel_mean(places: NDArray[np.float64]) -> NDArray[np.float64]:
        q = (places - centre) / bandwidth
        # (n, P) squared distances, in place from here on
        u = np.matmul(q, twice)
        np.subtract(squares, u, out=u)
        u += np.sum(q**2, axis=1)[:, None]
        if kernel == "gaussian":
            np.exp(np.multiply(u, -0.5, out=u), out=u)
        else:
            np.maximum(np.subtract(1.0, u, out=u), 0.0, out=u)
        with np.errstate(divide="ignore", over="ignore"):
            p: NDArray[np.float64] = np.exp(np.log(u.sum(axis=1)) - log_volume)
        return p

    return kernel_mean


def _over_tree(points: NDArray[np.float64], kernel: str, bandwidth: float) -> KernelMean:
    """Sums over those of `points` (P, C) that a tree finds to matter, to a relative error of `TOLERANCE`."""
    tree = _module("sklearn.neighbors").KDTree(points, leaf_size=40)
    log_count = np.log(len(points))

    def kernel_mean(places: NDArray[np.float64]) -> NDArray[np.float64]:
        log_sum = tree.kernel_density(places, bandwidth, kernel, rtol=TOLERANCE, return_log=True)
        with np.errstate(over="ignore"):  # 1 / (inf + eps) is 0, which is right
            p: NDArray[np.float64] = np.exp(log_sum - log_count)
        return p

    return kernel_mean


def _log_volume(kernel: str, dimensions: int) -> float:
    """Log of a kernel's integral at bandwidth 1: exp(-u^2 / 2), or 1 - u^2 within the unit ball."""
    if kernel == "gaussian":
        return 0.5 * dimensions * math.log(2.0 * math.pi)
    return log_unit_ball(dimensions) + math.log(2.0 / (dimensions + 2.0))


def _project(
    states: NDArray[np.float64], mean: NDArray[np.float64], components: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    return states if components is None else np.asarray((states - mean) @ components.T)


def _module(name: str) -> Any:
    """A module of scikit-learn, or one that comes with it."""
    try:
        return importlib.import_module(name)
    except ImportError as fault:
        raise MepolError("maxent needs scikit-learn: pip install 'mepol[rivals]'") from fault

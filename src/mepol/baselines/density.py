"""Density of a mixture's states: scikit-learn's kernel density estimate, after an optional PCA, at a bounded cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mepol.config import MaxEntConfig
from mepol.errors import ConfigError, MepolError

# Relative error that the tree may leave in a density: far below that of the estimate itself, and in few dimensions
# several times quicker than exact sums (docs/rivals.md, "Cost of the density").
TOLERANCE = 1e-2


@dataclass(frozen=True)
class Density:
    """p(s) of the states it was fitted to: what scikit-learn's KernelDensity gives.

    Its tree is asked directly: rewards come ten states at a time, and the checks around each call would cost more
    than the sums.
    """

    tree: Any
    mean: NDArray[np.float64]
    """(F,) origin of the components."""
    components: NDArray[np.float64] | None
    """(C, F) principal components, or None for the coordinates themselves."""
    kernel: str
    bandwidth: float
    points: int
    """States that each evaluation rests on."""

    @staticmethod
    def fit(states: NDArray[np.float64], config: MaxEntConfig, rng: np.random.Generator) -> Density:
        """Fit to `states` (N, F). At most `density_points` of them are kept, drawn without replacement.

        The kept ones are a sample of the same distribution: the estimate stays consistent, its relative error grows
        like 1 / sqrt(points in reach of the kernel), and the cost of a reward no longer depends on N.
        """
        neighbors, decomposition = _sklearn()
        n, width = states.shape
        mean, components = np.zeros(width), None
        if config.density_pca:
            if config.density_pca > min(n, width):
                raise ConfigError(
                    f"density_pca = {config.density_pca} is not possible: it must be at most the {width} coordinates"
                )
            pca = decomposition.PCA(config.density_pca, svd_solver="covariance_eigh").fit(states)
            mean, components = pca.mean_, pca.components_
        most = config.density_points
        kept = states if not most or n <= most else states[rng.choice(n, most, replace=False)]
        tree = neighbors.KDTree(_project(kept, mean, components), leaf_size=40)
        return Density(tree, mean, components, config.density_kernel, config.density_bandwidth, len(kept))

    def __call__(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n, F) states -> (n,) densities; 0 where a kernel of compact support reaches none."""
        where = _project(states, self.mean, self.components)
        log_sum = self.tree.kernel_density(where, self.bandwidth, self.kernel, rtol=TOLERANCE, return_log=True)
        with np.errstate(over="ignore"):  # 1 / (inf + eps) is 0, which is right
            p: NDArray[np.float64] = np.exp(log_sum - np.log(self.points))
        return p


def _project(
    states: NDArray[np.float64], mean: NDArray[np.float64], components: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    return states if components is None else np.asarray((states - mean) @ components.T)


def _sklearn() -> tuple[Any, Any]:
    try:
        from sklearn import decomposition, neighbors
    except ImportError as fault:
        raise MepolError("maxent needs scikit-learn: pip install 'mepol[rivals]'") from fault
    return neighbors, decomposition

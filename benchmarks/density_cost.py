"""Cost and error of MaxEnt's density at the paper's sizes: CPU seconds to fit, microseconds a state, relative error.

    python benchmarks/density_cost.py

Points are Gaussian with the spread of a walk, 1e6 of them; queries are other points of the same kind, in blocks of 10
as TRPO asks for them. The truth is the sum over all distances (SciPy's cdist), since scikit-learn's own tree leaves
rounding in many dimensions that is larger than the density (docs/method/rivals.md).
"""

from __future__ import annotations

import time

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gamma

from mepol.exploration.maxent.config import MaxEntConfig
from mepol.exploration.maxent.density import Density

POINTS = 1_000_000
CASES = ((2, 0.1, 0), (29, 0.2, 3), (47, 1.0, 0))  # coordinates, bandwidth, PCA: MountainCar, Ant, Humanoid


def microseconds(density: object, queries: np.ndarray) -> float:
    began = time.process_time()
    for block in queries.reshape(-1, 10, queries.shape[1]):
        density(block)
    return 1e6 * (time.process_time() - began) / len(queries)


def exact(x: np.ndarray, queries: np.ndarray, bandwidth: float) -> np.ndarray:
    """Epanechnikov density of `x` (N, C) at `queries` (n, C), from every distance."""
    c = x.shape[1]
    volume = np.pi ** (c / 2) / gamma(c / 2 + 1) * bandwidth**c * 2 / (c + 2)
    total = sum(
        np.maximum(1 - cdist(queries, part, "sqeuclidean") / bandwidth**2, 0).sum(axis=1)
        for part in np.array_split(x, 50)
    )
    return np.asarray(total) / (volume * len(x))


def main() -> None:
    rng = np.random.default_rng(0)
    print("coordinates  bandwidth  pca  points kept  fit s  us a state  median relative error")
    for dim, bandwidth, pca in CASES:
        spread = np.r_[3.0, 3.0, 1.0, np.full(max(dim - 3, 0), 0.3)][:dim] * (0.3 if dim == 2 else 1.0)
        x, queries = rng.normal(size=(POINTS, dim)) * spread, rng.normal(size=(200, dim)) * spread
        truth = None
        for keep in (0, 100_000, 20_000, 5000):
            config = MaxEntConfig(density_bandwidth=bandwidth, density_pca=pca, density_points=keep)
            began = time.process_time()
            density = Density.fit(x, config, rng)
            fit = time.process_time() - began
            few = queries[:20] if keep == 0 or (dim > 10 and keep > 50_000 and not pca) else queries
            cost = microseconds(density, few)
            if truth is None:
                turn = np.eye(dim) if density.components is None else density.components.T
                truth = exact((x - density.mean) @ turn, (few - density.mean) @ turn, bandwidth)
            p = density(queries[:20])
            seen = truth > 0
            error = f"{np.median(np.abs(p[seen] / truth[seen] - 1)):.3f}" if seen.any() else "no point in reach"
            print(f"{dim:11d}  {bandwidth:9g}  {pca:3d}  {density.points:11d}  {fit:5.1f}  {cost:10.0f}  {error}")


if __name__ == "__main__":
    main()

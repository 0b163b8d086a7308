"""The paper's three theorems, measured. `make theory` prints the tables of docs/method/theory.md.

Sampling density f = N(0, I), target f' = N(m, s^2 I), both in R^p: everything has a closed form, and s < 1 keeps
the importance weights bounded.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mepol.algorithm import importance_weights
from mepol.estimators import neighbour_mass, weighted_entropy, weighted_knn_entropy
from mepol.neighbours import Neighbours, log_unit_ball, neighbours

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """f = N(0, I) and f' = N(m, s^2 I) in R^p."""

    p: int
    m: float
    s: float

    @property
    def name(self) -> str:
        """f' in words."""
        return "f itself" if (self.m, self.s) == (0.0, 1.0) else f"N({self.m:g}, {self.s:g}²)"

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """(n, p) rows from f."""
        return rng.standard_normal((n, self.p))

    def weights(self, x: Array) -> Array:
        """(n,) f'(x) / f(x)."""
        log_target = -0.5 * (((x - self.m) / self.s) ** 2).sum(1) - self.p * math.log(self.s)
        ratio: Array = np.exp(log_target + 0.5 * (x**2).sum(1))
        return ratio

    @property
    def entropy(self) -> float:
        """H(f'), nats."""
        return 0.5 * self.p * math.log(2 * math.pi * math.e) + self.p * math.log(self.s)


def estimates(pair: Pair, n: int, k: int, repetitions: int, seed: int = 0) -> Array:
    """(repetitions,) Eq. 2 on independent samples of size n, in nats."""
    draws = (pair.draw(n, rng) for rng in _generators(seed, repetitions))
    return np.array([weighted_knn_entropy(x, pair.weights(x), k) for x in draws])


# --- Theorem 1: the bias falls with N -----------------------------------------------------------------------------


def bias(pair: Pair, n: int, k: int, repetitions: int) -> tuple[float, float]:
    """Mean error of Eq. 2 and its standard error, nats."""
    error = estimates(pair, n, k, repetitions) - pair.entropy
    return float(error.mean()), float(error.std(ddof=1) / math.sqrt(repetitions))


# --- Theorem 2: which formula gives the variance ------------------------------------------------------------------


@dataclass(frozen=True)
class Variances:
    """N times the variance of Eq. 2, measured and by three formulas."""

    measured: float
    measured_error: float  # one standard error
    printed: float  # sum of three variances, as in the theorem
    covariances: float  # Var[w T] with its covariances
    normalised: float  # Var[w (T - E[w T] + 1)]: covariances, and weights divided by their own sum


def variances(pair: Pair, n: int, k: int, repetitions: int) -> Variances:
    """Compare the measured variance with the theorem's formula and with its corrections.

    The moments in the formulas are taken over one large sample of (w, R), R from batches of size n.
    """
    measured = n * float(estimates(pair, n, k, repetitions).var(ddof=1))
    w, log_r = _weights_and_radii(pair, n, k, batches=max(2, 100_000 // n))
    log_c = math.log(n / k) + log_unit_ball(pair.p)
    term = -np.log(w) + pair.p * log_r + log_c  # T of the proof
    centre = float((w * term).mean())
    return Variances(
        measured=measured,
        measured_error=measured * math.sqrt(2.0 / (repetitions - 1)),
        printed=float((w * np.log(w)).var() + (w * pair.p * log_r).var() + log_c**2 * w.var()),
        covariances=float((w * term).var()),
        normalised=float((w * (term - centre + 1.0)).var()),
    )


def _weights_and_radii(pair: Pair, n: int, k: int, batches: int) -> tuple[Array, Array]:
    w, log_r = [], []
    for rng in _generators(1, batches):
        x = pair.draw(n, rng)
        w.append(pair.weights(x))
        log_r.append((neighbours(x, k).log_volume - log_unit_ball(pair.p)) / pair.p)
    return np.concatenate(w), np.concatenate(log_r)


# --- Theorem 3: the gradient --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gradients:
    """Largest error of each gradient of Eq. 2 against central differences, relative to the largest component."""

    autograd: float
    corrected: float  # -sum grad W_i / k (1 + ln(W_i / V_i))
    printed: float  # -sum grad W_i / k (V_i + ln(W_i / V_i))


def gradients(trajectories: int = 4, horizon: int = 25, k: int = 4, seed: int = 0) -> Gradients:
    """A Gaussian policy a ~ N(theta s, 1) in one dimension of state and action, differentiated in theta (2,)."""
    rng = np.random.default_rng(seed)
    states = torch.from_numpy(rng.standard_normal((trajectories * horizon, 2)))
    actions = torch.from_numpy(rng.standard_normal(trajectories * horizon))
    near = neighbours(rng.uniform(0, 3, (trajectories * horizon, 2)), k)
    visited = torch.ones(trajectories, horizon, dtype=torch.bool)

    def mass(theta: Tensor) -> Tensor:
        log_ratio = -0.5 * (actions - states @ theta) ** 2 + 0.5 * actions**2  # against theta_0 = 0
        return neighbour_mass(importance_weights(log_ratio, visited), near)

    theta = torch.tensor([0.05, -0.08], dtype=torch.float64, requires_grad=True)
    truth = _central_differences(lambda at: float(weighted_entropy(mass(at), near)), theta.detach())
    exact = torch.autograd.grad(weighted_entropy(mass(theta), near), theta)[0]
    return Gradients(
        autograd=_relative(exact, truth),
        corrected=_relative(_theorem(mass(theta), theta, near, printed=False), truth),
        printed=_relative(_theorem(mass(theta), theta, near, printed=True), truth),
    )


def _theorem(mass: Tensor, theta: Tensor, near: Neighbours, *, printed: bool) -> Tensor:
    """Theorem 3: the factor of grad W_i is V_i + ln(W_i/V_i) as printed, 1 + ln(W_i/V_i) as it must be."""
    log_volume = torch.from_numpy(near.log_volume)
    factor = (log_volume.exp() if printed else 1.0) + mass.detach().log() - log_volume
    return torch.autograd.grad(-(mass * factor).sum() / near.k, theta)[0]


def _central_differences(function: object, at: Tensor, step: float = 1e-5) -> Tensor:
    assert callable(function)
    unit = torch.eye(len(at), dtype=at.dtype) * step
    return torch.tensor([(function(at + u) - function(at - u)) / (2 * step) for u in unit], dtype=at.dtype)


def _relative(found: Tensor, truth: Tensor) -> float:
    return float((found - truth).abs().max() / truth.abs().max())


def _generators(seed: int, count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(count)]


# --- The tables ---------------------------------------------------------------------------------------------------

PAIRS = (Pair(1, 0.5, 0.8), Pair(2, 0.4, 0.8), Pair(3, 0.3, 0.9))


def tables() -> str:
    """All tables, in Markdown; about a minute."""
    sizes = (250, 1000, 4000)
    lines = ["### Theorem 1: error of Eq. 2, nats (mean and standard error of 100 samples)", ""]
    lines += ["| f' | p | k | " + " | ".join(f"N = {n}" for n in sizes) + " |", "|---" * (3 + len(sizes)) + "|"]
    for pair in PAIRS:
        for k in (1, 4, 50):
            cells = ["{:+.4f} ± {:.4f}".format(*bias(pair, n, k, 100)) for n in sizes]
            lines.append(f"| {pair.name} | {pair.p} | {k} | " + " | ".join(cells) + " |")
    lines += ["", "### Theorem 2: N times the variance of Eq. 2 (400 samples)", ""]
    lines += ["| f' | p | k | N | measured | printed formula | with covariances | and normalised weights |"]
    lines += ["|---" * 8 + "|"]
    for pair in (Pair(1, 0.0, 1.0), *PAIRS):
        for k, n in itertools.product((1, 4, 50), (500, 2000)):
            v = variances(pair, n, k, 400)
            lines.append(
                f"| {pair.name} | {pair.p} | {k} | {n} | {v.measured:.2f} ± {v.measured_error:.2f} | {v.printed:.2f} "
                f"| {v.covariances:.2f} | {v.normalised:.2f} |"
            )
    g = gradients()
    lines += ["", "### Theorem 3: relative error of the gradient of Eq. 2 against central differences", ""]
    lines += ["| autograd | 1 + ln(W/V) | V + ln(W/V), as printed |", "|---|---|---|"]
    lines += [f"| {g.autograd:.1e} | {g.corrected:.1e} | {g.printed:.1e} |"]
    return "\n".join(lines)


if __name__ == "__main__":
    print(tables())

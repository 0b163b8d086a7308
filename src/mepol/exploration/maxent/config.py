"""Settings of the rival MaxEnt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from mepol.settings import above, at_least, check, within

MAX_MIXTURE = 1000
"""Policies of a mixture, at most: a file that holds more is larger than any that is read back."""


@dataclass(frozen=True)
class MaxEntConfig:
    """The rival MaxEnt (Hazan et al. 2019)."""

    mixture_size: Annotated[int, within(0, MAX_MIXTURE)] = 30
    """Policies trained, one per round; the mixture also keeps uniform actions as its first component."""
    mixture_weights: Literal["uniform", "geometric"] = "uniform"
    """All components alike, or 0.9^age projected onto the simplex, which leaves the five newest."""
    mixture_draw: Literal["step", "episode"] = "step"
    """Whether a component is drawn anew at every step, as in the original, or once an episode."""
    density_horizon: Annotated[int, at_least(1)] = 1000
    """T_d, steps of the trajectories that the density is fitted to."""
    density_trajectories: Annotated[int, at_least(1)] = 20
    """N_traj_d, their number."""
    density_features: str = "all"
    """Observation coordinates that the density sees, by name or number."""
    density_kernel: Literal["epanechnikov", "gaussian"] = "epanechnikov"
    """Kernel of the density estimate."""
    density_bandwidth: Annotated[float, above(0)] = 0.1
    """Bandwidth of the kernel, in units of the state (after PCA, of its components)."""
    density_pca: Annotated[int, at_least(0)] = 0
    """Principal components that the density is taken over; 0 for none of that."""
    density_eps: Annotated[float, above(0)] = 1e-3
    """eps of the reward 1 / (p + eps)."""
    density_points: Annotated[int, at_least(0)] = 100_000
    """States kept for the density, at most: bounds the cost of a reward. 0 keeps all."""
    trpo_iterations: Annotated[int, at_least(1)] = 300
    """TRPO updates per round."""
    trpo_steps: Annotated[int, at_least(1)] = 5000
    """Environment steps an update."""
    trpo_kl: Annotated[float, above(0)] = 0.1
    """Trust region of TRPO, nats a state."""
    trpo_discount: Annotated[float, within(0, 1)] = 0.99
    """gamma."""
    scale_reward: bool = True
    """Multiply the reward by eps, so that it lies in (0, 1]: the same optimum, and a value that can be fitted."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def length(self) -> int:
        """Updates of a whole run: rounds."""
        return self.mixture_size

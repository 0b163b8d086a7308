"""Every setting of an exploration, once: its default, its unit, its allowed range. The dataclasses are also the command
line.

Unknown and impossible values are refused with the field, the value and what is allowed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from mepol.algorithm.config import AscentConfig, CriticConfig, PolicyConfig
from mepol.settings import require


@dataclass(frozen=True)
class EvaluationConfig:
    """When and how a policy is measured on fresh trajectories (never counted as training samples)."""

    evaluate_every: int = 10
    """Epochs between evaluations; the first and the last policy are always measured. 0: only those two."""
    evaluation_trajectories: int = 100
    """Fresh trajectories an evaluation."""
    heatmap_axes: str = "0,1"
    """The two observation coordinates of heatmaps and discrete entropies, by name or number."""
    heatmap_low: tuple[float, float] | None = None
    """Lower ends of their ranges; outer bins absorb what lies outside. By default the observation space's."""
    heatmap_high: tuple[float, float] | None = None
    """Upper ends of their ranges."""
    heatmap_bins: tuple[int, int] = (20, 20)
    """Bins along each of the two."""

    def __post_init__(self) -> None:
        require(self.evaluate_every >= 0, "evaluate_every", self.evaluate_every, "at least 0")
        trajectories = self.evaluation_trajectories
        require(1 <= trajectories <= 10**6, "evaluation_trajectories", trajectories, "from 1 to 1e6")
        require(all(1 <= b <= 4096 for b in self.heatmap_bins), "heatmap_bins", self.heatmap_bins, "from 1 to 4096")


@dataclass(frozen=True)
class CheckpointConfig:
    """How much work a crash may cost: a checkpoint is written at whichever comes first."""

    checkpoint_epochs: int = 10
    """Epochs between checkpoints, at most."""
    checkpoint_minutes: float = 1.0
    """Minutes between checkpoints, at most (as far as an epoch's end allows)."""

    def __post_init__(self) -> None:
        require(self.checkpoint_epochs >= 1, "checkpoint_epochs", self.checkpoint_epochs, "at least 1")
        require(self.checkpoint_minutes >= 0, "checkpoint_minutes", self.checkpoint_minutes, "at least 0")


@dataclass(frozen=True)
class MaxEntConfig:
    """The rival MaxEnt (Hazan et al. 2019); read by `--explorer maxent` alone."""

    mixture_size: int = 30
    """Policies trained, one a round; the mixture also keeps uniform actions as its first component."""
    mixture_weights: Literal["uniform", "geometric"] = "uniform"
    """All components alike, or 0.9^age projected onto the simplex, which leaves the five newest."""
    mixture_draw: Literal["step", "episode"] = "step"
    """Whether a component is drawn anew at every step, as in the original, or once an episode."""
    density_horizon: int = 1000
    """T_d, steps of the trajectories that the density is fitted to."""
    density_trajectories: int = 20
    """N_traj_d, their number."""
    density_features: str = "all"
    """Observation coordinates that the density sees, by name or number."""
    density_kernel: Literal["epanechnikov", "gaussian"] = "epanechnikov"
    """Kernel of the density estimate."""
    density_bandwidth: float = 0.1
    """Bandwidth of the kernel, in units of the state (after PCA, of its components)."""
    density_pca: int = 0
    """Principal components that the density is taken over; 0 for none of that."""
    density_eps: float = 1e-3
    """eps of the reward 1 / (p + eps)."""
    density_points: int = 100_000
    """States kept for the density, at most: bounds the cost of a reward. 0 keeps all."""
    trpo_iterations: int = 300
    """TRPO updates a round."""
    trpo_steps: int = 5000
    """Environment steps an update."""
    trpo_kl: float = 0.1
    """Trust region of TRPO, nats a state."""
    trpo_discount: float = 0.99
    """gamma."""
    scale_reward: bool = True
    """Multiply the reward by eps, so that it lies in (0, 1]: the same optimum, and a value that can be fitted."""

    def __post_init__(self) -> None:
        require(0 <= self.mixture_size <= 10_000, "mixture_size", self.mixture_size, "from 0 to 10000")
        for name in ("density_horizon", "density_trajectories", "trpo_iterations", "trpo_steps"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        for name in ("density_bandwidth", "density_eps", "trpo_kl"):
            require(0 < getattr(self, name) < math.inf, name, getattr(self, name), "above 0 and finite")
        for name in ("density_pca", "density_points"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "at least 0")
        require(0 <= self.trpo_discount <= 1, "trpo_discount", self.trpo_discount, "from 0 to 1")


@dataclass(frozen=True)
class ExploreConfig:
    """Explore one environment without any reward, and learn one policy that covers its states evenly."""

    env: str
    """Gymnasium id of the environment."""
    features: str = "all"
    """Observation coordinates whose entropy is maximised, by name or number: `all`, `x,y`, `0:7`, `0:3,yaw`."""
    scale_features: bool = False
    """Measure distances in units of each feature's bounds; entropies are still reported in raw units."""
    horizon: int = 500
    """T, steps a trajectory."""
    trajectories: int = 20
    """N_traj, trajectories a batch."""
    epochs: int = 100
    """Policy updates."""
    seed: int = 0
    """Fixes everything: environment resets, action noise, initial weights."""
    ignore_termination: bool = True
    """Go on past the end of an episode, as the paper does; otherwise a trajectory is cut there."""
    env_time_limit: float = 0.0
    """Seconds that one call of the environment may take before the run is stopped; 0 for no limit."""
    threads: int = 0
    """CPU threads; 0 for all cores. The result does not depend on it."""
    explorer: Literal["mepol", "random", "uniform", "maxent"] = "mepol"
    """What explores: MEPOL, the Gaussian it starts from, uniform actions, or the mixture of MaxEnt."""
    ascent: AscentConfig = field(default_factory=AscentConfig)
    critic: CriticConfig = field(default_factory=CriticConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    maxent: MaxEntConfig = field(default_factory=MaxEntConfig)
    ceiling: float | None = None
    """Highest entropy that any policy can reach, in nats, where it is known."""

    @property
    def length(self) -> int:
        """Updates of a whole run: epochs of MEPOL, rounds of MaxEnt, none of what does not learn."""
        return {"mepol": self.epochs, "maxent": self.maxent.mixture_size}.get(self.explorer, 0)

    def __post_init__(self) -> None:
        require(self.horizon >= 1, "horizon", self.horizon, "at least 1")
        require(self.trajectories >= 1, "trajectories", self.trajectories, "at least 1")
        require(self.epochs >= 0, "epochs", self.epochs, "at least 0")
        require(0 <= self.seed < 2**63, "seed", self.seed, "from 0 to 2^63 - 1")
        require(0 <= self.env_time_limit < 1e6, "env_time_limit", self.env_time_limit, "from 0 to 1e6 s")
        require(self.threads >= 0, "threads", self.threads, "at least 0 (0: all cores)")
        particles = self.horizon * self.trajectories
        require(particles <= 10**9, "horizon x trajectories", particles, "at most 1e9 particles")
        require(
            self.ascent.k < particles,
            "k",
            self.ascent.k,
            f"below the {particles} particles of {self.trajectories} trajectories of {self.horizon} steps",
        )
        fresh = self.evaluation.evaluation_trajectories
        require(
            self.ascent.k < self.horizon * fresh,
            "evaluation_trajectories",
            fresh,
            f"enough for more than k = {self.ascent.k} particles at {self.horizon} steps each",
        )
        for name in ("mirror", "standardise"):  # MaxEnt's policies start as TRPO's do
            chosen = getattr(self.policy, name)
            require(self.explorer != "maxent" or not chosen, name, chosen, "off with the explorer maxent")

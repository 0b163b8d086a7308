"""Every setting of an exploration, once: its default, its unit, its allowed range. The dataclasses are also the command
line.

Unknown and impossible values are refused with the field, the value and what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import tyro

from mepol.algorithm.config import AscentConfig, CriticConfig, PolicyConfig
from mepol.envs.layout import AUTO, Coinciding, Scaling
from mepol.envs.pixels import Seen
from mepol.exploration.worlds.config import WorldsConfig
from mepol.runs.machine import MachineConfig, machine_apart
from mepol.runs.start import SCRATCH
from mepol.settings import GIVEN, at_least, check, one_of, require, require_plain, within

EXPLORERS: dict[str, type | None] = {}
"""Explorers, with the dataclass of their own settings (`rival`) where they have any; filled by their table."""
EXPLORE_WORLDS = ("mepol", "random", "uniform")
"""Those that take a class of environments."""


@dataclass(frozen=True)
class EvaluationConfig:
    """When and how a policy is measured on fresh trajectories (never counted as training samples)."""

    evaluate_every: Annotated[int, at_least(0)] = 10
    """Epochs between evaluations; the first and the last policy are always measured. 0: only those two."""
    evaluation_trajectories: Annotated[int, within(1, 10**6)] = 100
    """Fresh trajectories per evaluation."""
    heatmap_axes: str = "0,1"
    """The two observation coordinates of heatmaps and discrete entropies, by name or number, or one alone, for a
    histogram; `auto` for the two that reach furthest in random play."""
    heatmap_low: tuple[float, float] | None = None
    """Lower ends of their ranges; outer bins absorb what lies outside. By default the observation space's, or with
    `auto`, where that is unbounded, from random play."""
    heatmap_high: tuple[float, float] | None = None
    """Upper ends of their ranges."""
    heatmap_bins: Annotated[tuple[int, int], within(1, 4096)] = (20, 20)
    """Bins along each of the two."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class ExploreConfig:
    """Explore one environment without any reward, and learn one policy that covers its states evenly."""

    env: str
    """Gymnasium id of the environment."""
    env_kwargs: tyro.conf.Suppress[dict[str, Any]] = field(default_factory=dict)
    """Arguments of its construction, by name: plain values that JSON can hold."""
    wrappers: tyro.conf.Suppress[tuple[str, ...]] = ()  # --wrapper, once for each
    """Classes that wrap each single environment, MODULE:CLASS, the innermost first."""
    features: str = "all"
    """Observation coordinates whose entropy is maximised, by name or number: `all`, `x,y`, `0:7`, `0:3,yaw`,
    `achieved_goal`, `all,-19`, `angle(0,1),2`; `auto` for all that random play moves, angles as such."""
    scale_features: Scaling = "off"
    """Units of distance: raw, of each feature's bounds, of its spread in random play, or the latter where spreads
    differ much (auto); entropies are in raw units whatever these."""
    coinciding: Coinciding = "refuse"
    """Particles that coincide with their k nearest: an error (the paper's, see eps), or held apart by a floor of one
    ten-thousandth of the features' spread, and counted in metrics.csv."""
    observations: tyro.conf.Suppress[Literal["state", "pixels"]] = "state"  # read before the rest: it changes some
    """What the policy sees: the environment's own observations, or of GridWorld and MountainCar a picture of the state
    that is painted here; then the encoder is random."""
    encoder: tyro.conf.Suppress[Literal["none", "random"]] = "none"
    """What the entropy of pictures is taken of: their embedding by a frozen random network of the run's seed."""
    horizon: Annotated[int, at_least(1)] = 500
    """T, steps per trajectory."""
    horizon_start: Annotated[int, at_least(0, "0: none")] = 0
    """T_0: begin with trajectories of so many steps, more of them, and double the steps up to T whenever the entropy
    grows little; 0 is the paper's, T from the first epoch on. Evaluations have T steps throughout."""
    trajectories: Annotated[int, at_least(1)] = 20
    """N_traj, trajectories per batch."""
    epochs: Annotated[int, at_least(0)] = 100
    """Policy updates."""
    unit_actions: bool = True
    """Reach a bounded action space from [-1, 1], so that a policy's spread covers it whatever its units; the paper's
    domains, and batches of one's own, keep their raw units."""
    seed: Annotated[int, within(0, 2**63 - 1)] = 0
    """Fixes everything: environment resets, action noise, initial weights."""
    init: str = SCRATCH
    """A run, `zoo:NAME` or policy file whose policy it starts from, whatever environment of the same states and actions
    that explored; the settings of a new policy (`hidden`, `log_std`, ...) are then not used."""
    ignore_termination: bool = True
    """Go on past the end of an episode, as the paper does; otherwise a trajectory is cut there."""
    explorer: tyro.conf.Suppress[Annotated[str, one_of(EXPLORERS)]] = "mepol"  # read before the rest: it brings some
    """What explores: MEPOL, the Gaussian it starts from, uniform actions, or a rival: MaxEnt, APT, RE3, RND."""
    policy_class: tyro.conf.Suppress[Annotated[str, one_of(("gaussian",))]] = "gaussian"
    """What acts: the Gaussian of `policy` (a categorical one for discrete actions), or a class that was handed in."""
    objective: tyro.conf.Suppress[Annotated[str, one_of(("knn",))]] = "knn"
    """What is climbed: the nearest-neighbour entropy, or an estimator that was handed in."""
    ascent: AscentConfig = field(default_factory=AscentConfig)
    critic: CriticConfig = field(default_factory=CriticConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    machine: MachineConfig = field(default_factory=MachineConfig)
    worlds: WorldsConfig = field(default_factory=WorldsConfig)
    rival: Any = None  # an instance of EXPLORERS[explorer], by default with its defaults
    ceiling: float | None = None
    """Highest entropy that any policy can reach, in nats, where it is known."""

    @staticmethod
    def slots(data: Mapping[str, Any]) -> dict[str, type | None]:
        """The type of `rival` (see mepol.settings)."""
        explorer = data.get("explorer")
        return {"rival": EXPLORERS.get(explorer) if isinstance(explorer, str) else None}

    @staticmethod
    def upgrade(data: dict[str, Any]) -> dict[str, Any]:
        """Settings as they were stored when every run had those of the machine and of MaxEnt among its own."""
        if "threads" in data:  # made before actions had units of their own
            data = {"unit_actions": False, **data}
        if isinstance(data.get("scale_features"), bool):
            data = {**data, "scale_features": "bounds" if data["scale_features"] else "off"}
        data = machine_apart(data)
        if "maxent" in data:
            rival = data.pop("maxent")
            data |= {"rival": rival} if data.get("explorer") == "maxent" else {}
        return data

    def __post_init__(self) -> None:
        check(self)
        self._check_rival()
        self._check_worlds()
        require_plain("env_kwargs", self.env_kwargs)
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
        most = min(self.trajectories, fresh)
        some = f"at most the {most} trajectories of a batch and of an evaluation"
        require(self.policy.policies <= most, "policies", self.policy.policies, some)
        alone = f"1 with the explorer {self.explorer}"
        require(self.rival is None or self.policy.policies == 1, "policies", self.policy.policies, alone)
        self._check_batches(particles)
        for name in ("mirror", "standardise", "noise_correlation", "symmetric"):  # MaxEnt's policies start as TRPO's do
            chosen = getattr(self.policy, name)
            require(self.explorer != "maxent" or not chosen, name, chosen, "off with the explorer maxent")

        self._check_pictures()

    @property
    def seen(self) -> Seen:
        """What the environment shows."""
        return "pixels" if self.observations == "pixels" else "pictures" if self.encoder == "random" else "state"

    def _check_pictures(self) -> None:
        """Painted pictures fill in their encoder; what has no meaning for an embedding is refused."""
        if self.observations == "pixels":
            object.__setattr__(self, "encoder", "random")
        if self.encoder == "none":
            return
        alone = {"features": "all", "scale_features": "off", "coinciding": "refuse"}
        for name, value in alone.items():
            given = getattr(self, name)
            require(given == value, name, given, f"{value!r} with an encoder, whose embedding is what is measured")
        for name in ("scale_inputs", "standardise"):
            require(not getattr(self.policy, name), name, True, "off with an encoder: bytes come as 0 to 1 already")
        require(self.evaluation.heatmap_axes != AUTO, "heatmap_axes", AUTO, "named with an encoder")
        require(self.rival is None, "encoder", self.encoder, f"'none' with the explorer {self.explorer}")
        require(self.policy.policies == 1, "policies", self.policy.policies, "1 with an encoder")

    def _check_batches(self, particles: int) -> None:
        """What a curriculum and the reuse of batches do not go with."""
        start, reuse = self.horizon_start, self.ascent.reuse
        require(start < self.horizon, "horizon_start", start, f"below the horizon, {self.horizon} steps (0: none)")
        require(reuse * particles <= 10**9, "reuse", reuse, f"few enough for 1e9 particles at {particles} a batch")
        require(reuse == 1 or self.policy.policies == 1, "reuse", reuse, "1 with several policies")
        require(reuse == 1 or self.objective == "knn", "reuse", reuse, "1 with an objective that was handed in")
        require(reuse == 1 or self.encoder == "none", "reuse", reuse, "1 with an encoder: pictures are too many")
        several = bool(self.worlds.envs)
        require(reuse == 1 or not several, "reuse", reuse, "1 with several environments")
        require(start == 0 or not several, "horizon_start", start, "0 with several environments")
        learns = self.explorer == "mepol" or self.explorer.startswith(GIVEN)
        require(learns or start == 0, "horizon_start", start, f"0 with the explorer {self.explorer}")
        require(learns or reuse == 1, "reuse", reuse, f"1 with the explorer {self.explorer}")
        fresh = self.init == SCRATCH
        require(learns or fresh, "init", self.init, f"{SCRATCH!r} with the explorer {self.explorer}")
        own = self.policy_class.startswith(GIVEN)
        require(fresh or not own, "init", self.init, f"{SCRATCH!r} beside a policy that was handed in")
        average = self.ascent.average
        require(learns or average == 0, "average", average, f"0 with the explorer {self.explorer}")

    def _check_rival(self) -> None:
        """`rival` is the explorer's own settings: their defaults if not given, none for an explorer without any."""
        kind = EXPLORERS.get(self.explorer)
        if kind is not None and self.rival is None:
            object.__setattr__(self, "rival", kind())  # the way of frozen dataclasses to fill in a field
        fits = self.rival is None if kind is None else isinstance(self.rival, kind)
        require(fits, "rival", self.rival, f"a {kind.__name__}" if kind else f"None with the explorer {self.explorer}")

    def _check_worlds(self) -> None:
        """What a class of environments asks of the other settings."""
        worlds, size = self.worlds, self.worlds.size(self.trajectories)
        if not worlds.envs:
            return
        first = worlds.envs[0]
        for name in ("env", "env_kwargs"):
            require(getattr(self, name) == first[name], name, getattr(self, name), "that of the first world")
        alone = "with several environments"
        require(self.explorer in EXPLORE_WORLDS, "explorer", self.explorer, f"{', '.join(EXPLORE_WORLDS)} {alone}")
        by_weights = self.ascent.rule == "importance" or self.ascent.rule.startswith(GIVEN)
        require(by_weights, "rule", self.ascent.rule, f"importance {alone}: a critic cannot tell them apart")
        require(self.objective == "knn", "objective", self.objective, f"knn {alone}")
        require(self.encoder == "none", "encoder", self.encoder, f"'none' {alone}")
        require(not self.policy.symmetric, "symmetric", True, f"off {alone}: a mirror of one may be none of another")
        whole = f"a multiple of the {size} of a mini-batch (world_trajectories)"
        require(self.trajectories % size == 0, "trajectories", self.trajectories, whole)
        few = f"below the {size * self.horizon} particles of a mini-batch of {size} trajectories"
        require(self.ascent.k < size * self.horizon, "k", self.ascent.k, few)
        heads = f"a divisor of world_trajectories = {size} {alone}"
        require(size % self.policy.policies == 0, "policies", self.policy.policies, heads)

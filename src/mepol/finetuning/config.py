"""Every setting of a fine-tuning run, once. The dataclasses are also the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import tyro

from mepol.errors import ConfigError
from mepol.sb3.settings import FISHER_EVERY, ValueTarget

Algo = Literal["trpo", "ppo", "sac", "smm", "icm", "pseudocount"]
ALGOS: tuple[str, ...] = get_args(Algo)
ON_POLICY = ("trpo", "ppo")
ROOMS = ("trpo", "ppo", "sac", "intrinsic")
"""Where the settings of single learners lie."""


@dataclass(frozen=True)
class TrpoConfig:
    """Trust region policy optimisation (sb3-contrib), with the settings of Spinning Up, which the paper used."""

    steps: int = 5000
    """Environment steps an iteration."""
    kl: float = 0.01
    """Trust region on the mean KL of the action distributions, in nats."""
    discount: float = 0.99
    gae_lambda: float = 0.97
    cg_steps: int = 10
    """Conjugate-gradient steps."""
    cg_damping: float = 0.1
    fisher_every: int = FISHER_EVERY
    """Fisher products use every so many-th state; 1 for all of them."""
    backtrack: float = 0.8
    """Factor of the line search."""
    max_backtracks: int = 10
    value_target: ValueTarget = "reward-to-go"
    """What the value function learns: discounted reward-to-go, or the lambda-returns of GAE."""
    value_rate: float = 1e-3
    """Learning rate of the value function (Adam)."""
    value_passes: int = 10
    """Passes over the batch to fit the value function."""
    value_minibatches: int = 8
    """Parts of the batch that each pass steps through."""

    def __post_init__(self) -> None:
        _require(self.steps >= 2, "trpo.steps", self.steps, "at least 2")
        _require(self.kl > 0, "trpo.kl", self.kl, "above 0")
        _require(0 <= self.discount <= 1, "trpo.discount", self.discount, "from 0 to 1")
        _require(0 <= self.gae_lambda <= 1, "trpo.gae_lambda", self.gae_lambda, "from 0 to 1")
        _require(self.cg_steps >= 1, "trpo.cg_steps", self.cg_steps, "at least 1")
        _require(self.fisher_every >= 1, "trpo.fisher_every", self.fisher_every, "at least 1")
        _require(0 < self.backtrack < 1, "trpo.backtrack", self.backtrack, "between 0 and 1")
        _require(self.max_backtracks >= 1, "trpo.max_backtracks", self.max_backtracks, "at least 1")
        _require(0 < self.value_rate < 1, "trpo.value_rate", self.value_rate, "between 0 and 1")
        _require(self.value_passes >= 0, "trpo.value_passes", self.value_passes, "at least 0")
        _require(self.value_minibatches >= 1, "trpo.value_minibatches", self.value_minibatches, "at least 1")


@dataclass(frozen=True)
class PpoConfig:
    """Proximal policy optimisation (Stable-Baselines3). The paper has no PPO: its batches are TRPO's."""

    steps: int = 5000
    """Environment steps an iteration."""
    learning_rate: float = 3e-4
    clip: float = 0.2
    """How far from 1 a ratio of action probabilities still counts."""
    discount: float = 0.99
    gae_lambda: float = 0.97
    value_target: ValueTarget = "reward-to-go"
    """What the value function learns: discounted reward-to-go, or the lambda-returns of GAE."""
    passes: int = 10
    minibatches: int = 8
    target_kl: float = 0.015
    """Passes end where the mean KL exceeds 1.5 times this, in nats."""

    def __post_init__(self) -> None:
        _require(self.steps >= 2, "ppo.steps", self.steps, "at least 2")
        _require(0 < self.learning_rate < 1, "ppo.learning_rate", self.learning_rate, "between 0 and 1")
        _require(self.clip > 0, "ppo.clip", self.clip, "above 0")
        _require(0 <= self.discount <= 1, "ppo.discount", self.discount, "from 0 to 1")
        _require(0 <= self.gae_lambda <= 1, "ppo.gae_lambda", self.gae_lambda, "from 0 to 1")
        _require(self.passes >= 1, "ppo.passes", self.passes, "at least 1")
        _require(self.minibatches >= 1, "ppo.minibatches", self.minibatches, "at least 1")
        _require(self.target_kl > 0, "ppo.target_kl", self.target_kl, "above 0")


@dataclass(frozen=True)
class SacConfig:
    """Soft actor-critic (Stable-Baselines3), alone or under an intrinsic reward."""

    steps: int = 5000
    """Environment steps an iteration, collected before its updates."""
    updates: int = 5000
    """Gradient updates an iteration."""
    learning_rate: float = 3e-4
    discount: float = 0.99
    batch: int = 256
    """Transitions an update."""
    buffer: int = 1_000_000
    """Transitions kept."""
    tau: float = 0.005
    """Share of the critic that its target takes over at each update."""
    warmup: int = 10_000
    """Steps collected before the first update, rounded up to whole steps of all sub-environments."""

    def __post_init__(self) -> None:
        _require(self.steps >= 1, "sac.steps", self.steps, "at least 1")
        _require(self.updates >= 0, "sac.updates", self.updates, "at least 0")
        _require(0 < self.learning_rate < 1, "sac.learning_rate", self.learning_rate, "between 0 and 1")
        _require(0 <= self.discount <= 1, "sac.discount", self.discount, "from 0 to 1")
        _require(self.batch >= 1, "sac.batch", self.batch, "at least 1")
        _require(self.buffer >= self.steps, "sac.buffer", self.buffer, f"at least the {self.steps} of an iteration")
        _require(0 < self.tau <= 1, "sac.tau", self.tau, "above 0 and at most 1")
        _require(self.warmup >= 0, "sac.warmup", self.warmup, "at least 0")


@dataclass(frozen=True)
class IntrinsicConfig:
    """The rivals' rewards: smm, icm, pseudocount."""

    extrinsic_weight: float = 1.0
    intrinsic_weight: float = 1.0
    skills: int = 4
    """Of SMM."""
    skill_sign: Literal["paper", "release"] = "paper"
    """SMM adds +ln q(z|s) (its paper) or the cross-entropy -ln q(z|s) (its released code)."""
    count_scale: float = 1.0
    """Pseudocount's c."""

    def __post_init__(self) -> None:
        _require(self.extrinsic_weight >= 0, "extrinsic_weight", self.extrinsic_weight, "at least 0")
        _require(self.intrinsic_weight >= 0, "intrinsic_weight", self.intrinsic_weight, "at least 0")
        _require(1 <= self.skills <= 1000, "skills", self.skills, "from 1 to 1000")
        _require(self.count_scale > 0, "count_scale", self.count_scale, "above 0")


@dataclass(frozen=True)
class FinetuneConfig:
    """Learn one sparse task, from an exploration policy or from scratch."""

    task: tyro.conf.Suppress[str]  # the command line's first word
    """Name of a task, or `module:function` for a goal of one's own."""
    env: tyro.conf.Suppress[str] = ""  # read before the rest, for it brings defaults
    """Gymnasium id of the domain, for a goal of one's own."""
    algo: Algo = "trpo"
    init: str = "none"
    """Exploration run or policy file to start from, or `none`."""
    seed: int = 0
    """Fixes everything: starts, action noise, initial weights, minibatches."""
    iterations: int = 100
    stop_return: float | None = None
    """End early, once the average return has been this or more for `stop_after` policies in a row."""
    stop_after: int = 10
    horizon: int = 500
    """Steps of an episode that does not reach the goal."""
    hidden: tuple[int, ...] = (400, 300)
    """Widths of the hidden ReLU layers; an exploration policy brings its own."""
    log_std: float = -0.5
    """Initial ln of the standard deviation of every action; an exploration policy brings its own."""
    threads: int = 0
    """CPU threads; 0 for all cores."""
    checkpoint_minutes: float = 1.0
    """Minutes between checkpoints, at most (as far as an iteration's end allows)."""
    trpo: TrpoConfig = field(default_factory=TrpoConfig)
    ppo: PpoConfig = field(default_factory=PpoConfig)
    sac: SacConfig = field(default_factory=SacConfig)
    intrinsic: IntrinsicConfig = field(default_factory=IntrinsicConfig)

    def __post_init__(self) -> None:
        _require(0 <= self.seed < 2**63, "seed", self.seed, "from 0 to 2^63 - 1")
        _require(self.iterations >= 0, "iterations", self.iterations, "at least 0")
        _require(self.stop_after >= 1, "stop_after", self.stop_after, "at least 1")
        _require(self.horizon >= 1, "horizon", self.horizon, "at least 1")
        _require(len(self.hidden) <= 30, "hidden", f"{len(self.hidden)} layers", "at most 30 layers")
        _require(all(1 <= w <= 65536 for w in self.hidden), "hidden", self.hidden, "widths from 1 to 65536")
        _require(-20 <= self.log_std <= 5, "log_std", self.log_std, "between -20 and 5")
        _require(self.threads >= 0, "threads", self.threads, "at least 0 (0: all cores)")
        _require(self.checkpoint_minutes >= 0, "checkpoint_minutes", self.checkpoint_minutes, "at least 0")
        name = f"{self.section}.steps"
        _require(self.steps % self.horizon == 0, name, self.steps, f"a multiple of the horizon, {self.horizon}")

    @property
    def section(self) -> str:
        """Which of the learners' settings apply: the rivals run on SAC."""
        return self.algo if self.algo in ON_POLICY else "sac"

    @property
    def rooms(self) -> tuple[str, ...]:
        """All of the learners' settings that `algo` reads."""
        return (self.section,) if self.algo == self.section else (self.section, "intrinsic")

    @property
    def steps(self) -> int:
        """Environment steps an iteration."""
        return {"trpo": self.trpo.steps, "ppo": self.ppo.steps, "sac": self.sac.steps}[self.section]

    @property
    def lanes(self) -> int:
        """M, sub-environments side by side: each plays one horizon an iteration."""
        return self.steps // self.horizon


def dotted_settings(config: FinetuneConfig, rooms: Sequence[str] = ROOMS) -> dict[str, Any]:
    """The settings common to all learners and those in `rooms`, by their names on the command line (`trpo.kl`)."""
    table = {name: value for name, value in vars(config).items() if name not in ROOMS}
    for room in rooms:
        table |= {f"{room}.{name}": value for name, value in vars(getattr(config, room)).items()}
    return table


def _require(condition: bool, name: str, value: object, allowed: str) -> None:
    if not condition:
        raise ConfigError(f"{name} = {value} is not possible: it must be {allowed}")

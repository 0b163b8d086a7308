"""Every setting of a fine-tuning run, once. The dataclasses are also the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, get_args

import tyro

from mepol.runs.machine import MachineConfig, machine_apart
from mepol.runs.start import SCRATCH
from mepol.sb3.settings import FISHER_EVERY, ValueTarget
from mepol.settings import above, at_least, between, check, flat_settings, require, require_plain, widths, within

Algo = Literal["trpo", "ppo", "sac", "smm", "icm", "pseudocount"]
ALGOS: tuple[str, ...] = get_args(Algo)
ON_POLICY = ("trpo", "ppo")
EntropyKind = Literal["state", "value-conditional"]
ROOMS = ("trpo", "ppo", "sac", "intrinsic")
"""Where the settings of single learners lie."""


@dataclass(frozen=True)
class TrpoConfig:
    """Trust region policy optimisation (sb3-contrib), with the settings of Spinning Up, which the paper used."""

    prefix: ClassVar[str] = "trpo."

    steps: Annotated[int, at_least(2)] = 5000
    """Environment steps per iteration."""
    kl: Annotated[float, above(0)] = 0.01
    """Trust region on the mean KL of the action distributions, in nats."""
    discount: Annotated[float, within(0, 1)] = 0.99
    """gamma."""
    gae_lambda: Annotated[float, within(0, 1)] = 0.97
    """lambda of the generalised advantages."""
    cg_steps: Annotated[int, at_least(1)] = 10
    """Conjugate-gradient steps."""
    cg_damping: Annotated[float, at_least(0)] = 0.1
    """Added to the diagonal of the Fisher matrix."""
    fisher_every: Annotated[int, at_least(1)] = FISHER_EVERY
    """Fisher products use every so many-th state; 1 for all of them."""
    backtrack: Annotated[float, between(0, 1)] = 0.8
    """Factor of the line search."""
    max_backtracks: Annotated[int, at_least(1)] = 10
    """Steps of the line search."""
    value_target: ValueTarget = "reward-to-go"
    """What the value function learns: discounted reward-to-go, or the lambda-returns of GAE."""
    value_rate: Annotated[float, between(0, 1)] = 1e-3
    """Learning rate of the value function (Adam)."""
    value_passes: Annotated[int, at_least(0)] = 10
    """Passes over the batch to fit the value function."""
    value_minibatches: Annotated[int, at_least(1)] = 8
    """Parts of the batch that each pass steps through."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class PpoConfig:
    """Proximal policy optimisation (Stable-Baselines3). The paper has no PPO: its batches are TRPO's."""

    prefix: ClassVar[str] = "ppo."

    steps: Annotated[int, at_least(2)] = 5000
    """Environment steps per iteration."""
    learning_rate: Annotated[float, between(0, 1)] = 3e-4
    """Step size of Adam."""
    clip: Annotated[float, above(0)] = 0.2
    """How far from 1 a ratio of action probabilities still counts."""
    discount: Annotated[float, within(0, 1)] = 0.99
    """gamma."""
    gae_lambda: Annotated[float, within(0, 1)] = 0.97
    """lambda of the generalised advantages."""
    value_target: ValueTarget = "reward-to-go"
    """What the value function learns: discounted reward-to-go, or the lambda-returns of GAE."""
    passes: Annotated[int, at_least(1)] = 10
    """Passes over a batch, at most."""
    minibatches: Annotated[int, at_least(1)] = 8
    """Parts of the batch that each pass steps through."""
    target_kl: Annotated[float, above(0)] = 0.015
    """Passes end where the mean KL exceeds 1.5 times this, in nats."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class SacConfig:
    """Soft actor-critic (Stable-Baselines3), alone or under an intrinsic reward."""

    prefix: ClassVar[str] = "sac."

    steps: Annotated[int, at_least(1)] = 5000
    """Environment steps per iteration, collected before its updates."""
    updates: Annotated[int, at_least(0)] = 5000
    """Gradient updates per iteration."""
    learning_rate: Annotated[float, between(0, 1)] = 3e-4
    """Step size of Adam."""
    discount: Annotated[float, within(0, 1)] = 0.99
    """gamma."""
    batch: Annotated[int, at_least(1)] = 256
    """Transitions an update."""
    buffer: Annotated[int, at_least(1)] = 1_000_000
    """Transitions kept."""
    tau: Annotated[float, above(0, 1)] = 0.005
    """Share of the critic that its target takes over at each update."""
    warmup: Annotated[int, at_least(0)] = 10_000
    """Steps collected before the first update, rounded up to whole steps of all sub-environments."""

    def __post_init__(self) -> None:
        check(self)
        require(self.buffer >= self.steps, "sac.buffer", self.buffer, f"at least the {self.steps} of an iteration")


@dataclass(frozen=True)
class IntrinsicConfig:
    """The rivals' rewards: smm, icm, pseudocount."""

    prefix: ClassVar[str] = "intrinsic."

    extrinsic_weight: Annotated[float, at_least(0)] = 1.0
    """Weight of the task's reward."""
    intrinsic_weight: Annotated[float, at_least(0)] = 1.0
    """Weight of the rival's own."""
    skills: Annotated[int, within(1, 1000)] = 4
    """Skills of SMM."""
    skill_sign: Literal["paper", "release"] = "paper"
    """SMM adds +ln q(z|s) (its paper) or the cross-entropy -ln q(z|s) (its released code)."""
    count_scale: Annotated[float, above(0)] = 1.0
    """Pseudocount's c."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class EntropyConfig:
    """A reward for the entropy of the visited states beside the task's own (docs/method/entropy.md)."""

    entropy_weight: Annotated[float, within(0, 1e6)] = 0.0
    """beta: what a deviation of the entropy reward is worth at each step, in the task's reward; 0 for none of it."""
    entropy_kind: EntropyKind = "state"
    """Whose entropy: the states', or the states' given the value that the learner sees in them (VCSE)."""
    entropy_decay: Annotated[float, within(0, 1)] = 0.0
    """Share of the weight that each iteration takes off: iteration i has beta (1 - decay)^i; 0 for a constant one."""
    entropy_k: Annotated[int, at_least(1)] = 12
    """Neighbours of the entropy reward."""

    def __post_init__(self) -> None:
        check(self)

    def weight(self, iteration: int) -> float:
        """beta of an iteration, from 0."""
        return self.entropy_weight * (1.0 - self.entropy_decay) ** iteration


@dataclass(frozen=True)
class FinetuneConfig:
    """Learn one task, from an exploration policy or from scratch."""

    task: tyro.conf.Suppress[str]  # the command line's first word
    """Name of a task, `module:function` for a goal of one's own, or an environment whose own reward is learnt."""
    env: tyro.conf.Suppress[str] = ""  # read before the rest, for it brings defaults
    """Gymnasium id of the domain, for a goal of one's own; the same as `task` for the domain's own reward."""
    env_kwargs: tyro.conf.Suppress[dict[str, Any]] = field(default_factory=dict)
    """Arguments of its construction, by name: plain values that JSON can hold."""
    algo: Algo = "trpo"
    """Who learns: TRPO, PPO, SAC, or SAC under the intrinsic reward of SMM, ICM or Pseudocount."""
    init: str = SCRATCH
    """Exploration run or policy file to start from, or `none`."""
    seed: Annotated[int, within(0, 2**63 - 1)] = 0
    """Fixes everything: starts, action noise, initial weights, minibatches."""
    iterations: Annotated[int, at_least(0)] = 100
    """Rounds of sampling and learning."""
    stop_return: float | None = None
    """End early, once the average return has been this or more for `stop_after` policies in a row."""
    stop_after: Annotated[int, at_least(1)] = 10
    """Policies in a row that `stop_return` asks for."""
    horizon: Annotated[int, at_least(1)] = 500
    """Steps of an episode that does not end before: in the goal, or by the environment's own rule."""
    hidden: Annotated[tuple[int, ...], widths()] = (400, 300)
    """Widths of the hidden ReLU layers; an exploration policy brings its own."""
    log_std: Annotated[float, within(-20, 5)] = -0.5
    """Initial ln of the standard deviation of every action; an exploration policy brings its own."""
    unit_actions: bool = True
    """Reach a bounded action space from [-1, 1], as the exploration did; the paper's tasks keep their raw units."""
    which: Literal["last", "best", "initial"] = "last"
    """Which policy of the run in `init`."""
    k: tyro.conf.Suppress[Annotated[int | None, at_least(1)]] = None
    """Neighbours of the entropy index, where a policy's coverage is asked for; by default the exploration's."""
    eps: tyro.conf.Suppress[Annotated[float | None, at_least(0)]] = None
    """Volume added to every neighbour ball there; by default the exploration's."""
    machine: Annotated[MachineConfig, tyro.conf.arg(name="")] = field(default_factory=MachineConfig)
    entropy: Annotated[EntropyConfig, tyro.conf.arg(name="")] = field(default_factory=EntropyConfig)
    trpo: TrpoConfig = field(default_factory=TrpoConfig)
    ppo: PpoConfig = field(default_factory=PpoConfig)
    sac: SacConfig = field(default_factory=SacConfig)
    intrinsic: IntrinsicConfig = field(default_factory=IntrinsicConfig)

    def __post_init__(self) -> None:
        check(self)
        require_plain("env_kwargs", self.env_kwargs)
        name = f"{self.section}.steps"
        require(self.steps % self.horizon == 0, name, self.steps, f"a multiple of the horizon, {self.horizon}")
        self._check_entropy()

    def _check_entropy(self) -> None:
        """ConfigError for an entropy reward that the learner cannot take, or that has too few states."""
        own = self.entropy
        if own.entropy_weight == 0:
            return
        owners = f"0 with {self.algo}: only trpo and ppo learn from a batch of the policy that they improve"
        require(self.on_policy, "entropy_weight", own.entropy_weight, owners)
        require(own.entropy_k < self.steps, "entropy_k", own.entropy_k, f"less than the {self.steps} states")

    @staticmethod
    def upgrade(data: dict[str, Any]) -> dict[str, Any]:
        """Settings as they were stored when those of the machine lay among the others."""
        if "threads" in data:  # made before actions had units of their own
            data = {"unit_actions": False, **data}
        return machine_apart(data)

    @property
    def own_reward(self) -> bool:
        """Whether the task is to earn what the environment itself pays."""
        return bool(self.env) and self.task == self.env

    @property
    def section(self) -> str:
        """Which of the learners' settings apply: the rivals run on SAC."""
        return self.algo if self.algo in ON_POLICY else "sac"

    @property
    def on_policy(self) -> bool:
        """Whether the learner's own Gaussian plays, so that it can begin as an exploration policy."""
        return self.algo in ON_POLICY

    @property
    def rooms(self) -> tuple[str, ...]:
        """All of the learners' settings that `algo` reads."""
        return (self.section,) if self.algo == self.section else (self.section, "intrinsic")

    @property
    def steps(self) -> int:
        """Environment steps per iteration."""
        return {"trpo": self.trpo.steps, "ppo": self.ppo.steps, "sac": self.sac.steps}[self.section]

    @property
    def lanes(self) -> int:
        """M, sub-environments side by side: each plays one horizon an iteration."""
        return self.steps // self.horizon


def dotted_settings(config: FinetuneConfig, rooms: Sequence[str] = ROOMS) -> dict[str, Any]:
    """The settings common to all learners and those in `rooms`, by their names on the command line (`trpo.kl`)."""
    others = tuple(f"{room}." for room in ROOMS if room not in rooms)
    return {name: value for name, value in flat_settings(config).items() if not name.startswith(others)}

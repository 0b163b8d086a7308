"""Every setting, once: its default, its unit, its allowed range. The dataclasses are also the command line.

Unknown and impossible values are refused with the field, the value and what is allowed.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from mepol.errors import ConfigError
from mepol.runs.files import read_text

MAX_CONFIG = 1 << 20  # bytes of a config file


@dataclass(frozen=True)
class AscentConfig:
    """One epoch's climb inside the trust region (Algorithm 1, IS-Optimizer)."""

    k: int = 4
    """Nearest neighbours of the entropy estimate."""
    kl_threshold: float = 15.0
    """Trust region on KL(sampled || new) of the state distributions, in nats."""
    learning_rate: float = 1e-5
    """Step size alpha."""
    max_steps: int = 30
    """Accepted gradient steps an epoch, at most."""
    max_backtracks: int = 10
    """How often a step that leaves the trust region may be undone and its rate halved, in one epoch."""
    eps: float = 0.0
    """Volume added to every neighbour ball; 0 makes coincident particles an error."""
    max_entropy_drop: float = 10.0
    """A fall of the batch entropy, from one epoch to the next, that stops the run as a collapse, in nats."""
    optimiser: Literal["adam", "sgd"] = "adam"
    """Ascent rule: Adam (the authors' release) or the plain gradient (the paper's text)."""
    rule: Literal["importance", "advantage"] = "importance"
    """Gradient: of Eq. 2 by importance weights (the paper), or by advantages of a critic; then a step is a pass."""
    policy_kl: float = 0.0
    """A second bound, on the mean KL of the actions, in nats a step; 0 for none (the paper)."""

    def __post_init__(self) -> None:
        _require(self.k >= 1, "k", self.k, "at least 1")
        _require(self.kl_threshold > 0, "kl_threshold", self.kl_threshold, "above 0")
        _require(0 < self.learning_rate <= 1e30, "learning_rate", self.learning_rate, "above 0 and at most 1e30")
        _require(self.max_steps >= 1, "max_steps", self.max_steps, "at least 1")
        _require(self.max_backtracks >= 0, "max_backtracks", self.max_backtracks, "at least 0")
        _require(self.max_entropy_drop > 0, "max_entropy_drop", self.max_entropy_drop, "above 0")
        _require(0 <= self.eps < math.inf, "eps", self.eps, "at least 0 and finite")
        _require(0 <= self.policy_kl < math.inf, "policy_kl", self.policy_kl, "at least 0 (0: no bound) and finite")
        with_adam = self.rule == "importance" or self.optimiser == "adam"
        _require(with_adam, "optimiser", self.optimiser, "adam with the rule 'advantage'")


@dataclass(frozen=True)
class CriticConfig:
    """The critic of the rule `advantage`; nothing else reads it."""

    discount: float = 0.99
    """gamma: how far ahead a step is credited, about 1 / (1 - gamma) steps."""
    trace: float = 0.95
    """lambda of the generalised advantages: 0 trusts the critic, 1 the sampled future."""
    minibatch: int = 1000
    """Particles of one gradient step, about: a pass over the batch makes N / minibatch of them."""
    clip: float = 0.2
    """A probability ratio beyond 1 +- clip brings no further gain."""
    critic_rate: float = 1e-3
    """Step size of the critic."""
    critic_steps: int = 100
    """Regression steps of the critic an epoch."""
    critic_hidden: tuple[int, ...] = (64, 64)
    """Widths of its hidden tanh layers."""

    def __post_init__(self) -> None:
        for name in ("discount", "trace"):
            _require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "from 0 to 1")
        for name in ("minibatch", "critic_steps"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        _require(0 < self.clip < 1, "clip", self.clip, "between 0 and 1")
        _require(0 < self.critic_rate <= 1, "critic_rate", self.critic_rate, "above 0 and at most 1")
        _require_widths(self.critic_hidden, "critic_hidden")


@dataclass(frozen=True)
class PolicyConfig:
    """The Gaussian policy and its start."""

    hidden: tuple[int, ...] = (300, 300)
    """Widths of the hidden ReLU layers."""
    log_std: float = -0.5
    """Initial ln of the standard deviation of every action."""
    zero_mean_steps: int = 100
    """Regression steps that bring the initial mean to zero; 0 leaves the Xavier start."""
    mirror: bool = False
    """Start from a mean of exactly zero: units of the last hidden layer in pairs that cancel, before any regression."""
    scale_inputs: bool = False
    """Map each bounded observation coordinate to +-input_range at the network's input (the paper feeds raw states)."""
    standardise: bool = False
    """Bring each unbounded coordinate to mean 0 and spread input_range, by the states of the first batch.
    Needs `mirror`, whose mean is zero at any input scale: the policy then stays the one that sampled the batch."""
    input_range: float = 1.0
    """Half-width of that range, or that spread: the larger, the finer the features that the initial network sees."""

    def __post_init__(self) -> None:
        _require_widths(self.hidden, "hidden")
        _require(-20 <= self.log_std <= 5, "log_std", self.log_std, "between -20 and 5")
        _require(self.zero_mean_steps >= 0, "zero_mean_steps", self.zero_mean_steps, "at least 0")
        paired = bool(self.hidden) and self.hidden[-1] % 2 == 0
        _require(paired or not self.mirror, "hidden", self.hidden, "even in its last width to be mirrored")
        _require(self.mirror or not self.standardise, "standardise", self.standardise, "used with mirror alone")
        _require(0 < self.input_range < math.inf, "input_range", self.input_range, "above 0 and finite")


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
        _require(self.evaluate_every >= 0, "evaluate_every", self.evaluate_every, "at least 0")
        trajectories = self.evaluation_trajectories
        _require(1 <= trajectories <= 10**6, "evaluation_trajectories", trajectories, "from 1 to 1e6")
        _require(all(1 <= b <= 4096 for b in self.heatmap_bins), "heatmap_bins", self.heatmap_bins, "from 1 to 4096")


@dataclass(frozen=True)
class CheckpointConfig:
    """How much work a crash may cost: a checkpoint is written at whichever comes first."""

    checkpoint_epochs: int = 10
    """Epochs between checkpoints, at most."""
    checkpoint_minutes: float = 1.0
    """Minutes between checkpoints, at most (as far as an epoch's end allows)."""

    def __post_init__(self) -> None:
        _require(self.checkpoint_epochs >= 1, "checkpoint_epochs", self.checkpoint_epochs, "at least 1")
        _require(self.checkpoint_minutes >= 0, "checkpoint_minutes", self.checkpoint_minutes, "at least 0")


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
        _require(0 <= self.mixture_size <= 10_000, "mixture_size", self.mixture_size, "from 0 to 10000")
        for name in ("density_horizon", "density_trajectories", "trpo_iterations", "trpo_steps"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        for name in ("density_bandwidth", "density_eps", "trpo_kl"):
            _require(0 < getattr(self, name) < math.inf, name, getattr(self, name), "above 0 and finite")
        for name in ("density_pca", "density_points"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "at least 0")
        _require(0 <= self.trpo_discount <= 1, "trpo_discount", self.trpo_discount, "from 0 to 1")


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
        _require(self.horizon >= 1, "horizon", self.horizon, "at least 1")
        _require(self.trajectories >= 1, "trajectories", self.trajectories, "at least 1")
        _require(self.epochs >= 0, "epochs", self.epochs, "at least 0")
        _require(0 <= self.seed < 2**63, "seed", self.seed, "from 0 to 2^63 - 1")
        _require(0 <= self.env_time_limit < 1e6, "env_time_limit", self.env_time_limit, "from 0 to 1e6 s")
        _require(self.threads >= 0, "threads", self.threads, "at least 0 (0: all cores)")
        particles = self.horizon * self.trajectories
        _require(particles <= 10**9, "horizon x trajectories", particles, "at most 1e9 particles")
        _require(
            self.ascent.k < particles,
            "k",
            self.ascent.k,
            f"below the {particles} particles of {self.trajectories} trajectories of {self.horizon} steps",
        )
        fresh = self.evaluation.evaluation_trajectories
        _require(
            self.ascent.k < self.horizon * fresh,
            "evaluation_trajectories",
            fresh,
            f"enough for more than k = {self.ascent.k} particles at {self.horizon} steps each",
        )
        for name in ("mirror", "standardise"):  # MaxEnt's policies start as TRPO's do
            chosen = getattr(self.policy, name)
            _require(self.explorer != "maxent" or not chosen, name, chosen, "off with the explorer maxent")


def _require(condition: bool, name: str, value: object, allowed: str) -> None:
    if not condition:
        raise ConfigError(f"{name} = {value} is not possible: it must be {allowed}")


def _require_widths(hidden: tuple[int, ...], name: str) -> None:
    _require(len(hidden) <= 30, name, f"{len(hidden)} layers", "at most 30 layers")
    _require(all(1 <= w <= 65536 for w in hidden), name, hidden, "widths from 1 to 65536")


C = TypeVar("C")

# --- Settings by their flat names -----------------------------------------------------------------------------------


def flat_settings(config: Any) -> dict[str, Any]:
    """Every setting of a config dataclass by its own name, whatever room it is in; names are unique."""
    pairs: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        pairs |= flat_settings(value) if dataclasses.is_dataclass(value) else {item.name: value}
    return pairs


def with_settings(config: C, changes: dict[str, Any]) -> C:
    """`config` with settings replaced by flat name; an unknown name or a value of another type is a ConfigError.

    Everything is replaced before anything is checked against anything else, so the order does not matter.
    """
    known = flat_settings(config)
    if unknown := sorted(set(changes) - set(known)):
        near = get_close_matches(unknown[0], known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
        raise ConfigError(f"no setting {unknown[0]!r}{hint}")
    built: C = _build(type(config), _changed(config, changes), type(config).__name__)
    return built


def _changed(config: Any, changes: dict[str, Any]) -> dict[str, Any]:
    return {
        item.name: _changed(value, changes) if dataclasses.is_dataclass(value) else changes.get(item.name, value)
        for item in dataclasses.fields(config)
        for value in [getattr(config, item.name)]
    }


# --- JSON ---------------------------------------------------------------------------------------------------------


def to_json(config: Any) -> str:
    """A config dataclass as JSON text."""
    return json.dumps(dataclasses.asdict(config), indent=2) + "\n"


def from_json(kind: type[C], text: str) -> C:
    """Rebuild a config of `kind` from JSON text; anything unknown, missing or of another type is a ConfigError."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise ConfigError(f"not JSON: {fault}") from fault
    built: C = _build(kind, data, kind.__name__)
    return built


def read_json(kind: type[C], path: Path) -> C:
    """`from_json` of a file."""
    try:
        return from_json(kind, read_text(path, MAX_CONFIG))
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigError(f"cannot read {path}: {fault}") from fault
    except ConfigError as fault:
        raise ConfigError(f"{path}: {fault}") from fault


def _build(kind: Any, data: Any, where: str) -> Any:
    """`data`, checked to be of type `kind` (dataclass, tuple, union, literal or plain)."""
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, data, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        return _build_tuple(arguments, data, where)
    if origin is Literal:
        if data not in arguments:
            raise ConfigError(f"{where} = {data!r} is not one of {', '.join(map(repr, arguments))}")
        return data
    if type(None) in arguments:
        return None if data is None else _build(arguments[0], data, where)
    if kind is float and type(data) is int:
        if abs(data) > 1 << 1000:
            raise ConfigError(f"{where} is larger than any number a float can hold")
        return float(data)
    if type(data) is not kind:
        raise ConfigError(f"{where} = {data!r} is not of type {kind.__name__}")
    return data


def _build_dataclass(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise ConfigError(f"{where} must be an object, not {data!r}")
    hints = get_type_hints(kind)
    if unknown := sorted(set(data) - set(hints)):
        raise ConfigError(f"{where} has no setting {unknown[0]!r}; it has {', '.join(hints)}")
    needed: Callable[[Any], bool] = lambda f: f.default is f.default_factory is dataclasses.MISSING  # noqa: E731
    if missing := [f.name for f in dataclasses.fields(kind) if needed(f) and f.name not in data]:
        raise ConfigError(f"{where} lacks {missing[0]!r}")
    return kind(**{name: _build(hints[name], value, f"{where}.{name}") for name, value in data.items()})


def _build_tuple(arguments: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise ConfigError(f"{where} must be a list, not {data!r}")
    kinds = [arguments[0]] * len(data) if Ellipsis in arguments else list(arguments)
    if len(kinds) != len(data):
        raise ConfigError(f"{where} needs {len(kinds)} values, not {len(data)}")
    return tuple(_build(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(zip(kinds, data, strict=True)))

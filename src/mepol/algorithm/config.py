"""Settings of the mathematics: one climb, its critic, the policy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from mepol.settings import require, require_widths


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
        require(self.k >= 1, "k", self.k, "at least 1")
        require(self.kl_threshold > 0, "kl_threshold", self.kl_threshold, "above 0")
        require(0 < self.learning_rate <= 1e30, "learning_rate", self.learning_rate, "above 0 and at most 1e30")
        require(self.max_steps >= 1, "max_steps", self.max_steps, "at least 1")
        require(self.max_backtracks >= 0, "max_backtracks", self.max_backtracks, "at least 0")
        require(self.max_entropy_drop > 0, "max_entropy_drop", self.max_entropy_drop, "above 0")
        require(0 <= self.eps < math.inf, "eps", self.eps, "at least 0 and finite")
        require(0 <= self.policy_kl < math.inf, "policy_kl", self.policy_kl, "at least 0 (0: no bound) and finite")
        with_adam = self.rule == "importance" or self.optimiser == "adam"
        require(with_adam, "optimiser", self.optimiser, "adam with the rule 'advantage'")


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
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "from 0 to 1")
        for name in ("minibatch", "critic_steps"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        require(0 < self.clip < 1, "clip", self.clip, "between 0 and 1")
        require(0 < self.critic_rate <= 1, "critic_rate", self.critic_rate, "above 0 and at most 1")
        require_widths(self.critic_hidden, "critic_hidden")


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
        require_widths(self.hidden, "hidden")
        require(-20 <= self.log_std <= 5, "log_std", self.log_std, "between -20 and 5")
        require(self.zero_mean_steps >= 0, "zero_mean_steps", self.zero_mean_steps, "at least 0")
        paired = bool(self.hidden) and self.hidden[-1] % 2 == 0
        require(paired or not self.mirror, "hidden", self.hidden, "even in its last width to be mirrored")
        require(self.mirror or not self.standardise, "standardise", self.standardise, "used with mirror alone")
        require(0 < self.input_range < math.inf, "input_range", self.input_range, "above 0 and finite")

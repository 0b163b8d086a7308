"""Settings of the mathematics: one climb, its critic, the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from mepol.settings import above, at_least, between, check, one_of, require, widths, within

RULES = ["importance", "advantage"]
"""Names of the ascent rules."""


@dataclass(frozen=True)
class AscentConfig:
    """One epoch's climb inside the trust region (Algorithm 1, IS-Optimizer)."""

    k: Annotated[int, at_least(0, "0: chosen by features and batch")] = 4
    """Nearest neighbours of the entropy estimate. 0 leaves them open until an exploration begins: 4, but with one or
    two features one in 200 of a batch's particles, if that is more, and at most 50."""
    kl_threshold: Annotated[float, above(0)] = 15.0
    """Trust region on KL(sampled || new) of the state distributions, in nats."""
    learning_rate: Annotated[float, above(0, 1e30)] = 1e-5
    """Step size alpha."""
    max_steps: Annotated[int, at_least(1)] = 30
    """Accepted gradient steps per epoch, at most."""
    max_backtracks: Annotated[int, at_least(0)] = 10
    """How often a step that leaves the trust region may be undone and its rate halved, in one epoch."""
    eps: Annotated[float, at_least(0)] = 0.0
    """Volume added to every neighbour ball; 0 makes coincident particles an error."""
    max_entropy_drop: Annotated[float, above(0)] = 10.0
    """A fall of the batch entropy, from one epoch to the next, that stops the run as a collapse, in nats."""
    state_discount: Annotated[float, above(0, 1)] = 1.0
    """gamma of the states whose entropy is climbed and measured: the one after t steps counts gamma^t; 1 is the
    paper's, where all count alike."""
    reuse: Annotated[int, within(1, 100)] = 1
    """L: the last L batches in Eq. 2, as far as they still add to its effective sample size; 1 is the paper's, a new
    batch alone. A climb costs as many times more: fewer trajectories hold its cost."""
    average: Annotated[float, within(0, 0.999)] = 0.0
    """What is kept and measured is the mean of the policies learnt so far, of which an epoch leaves this share as it
    is; 0 is the paper's, the newest policy itself. Batches are drawn by the newest in any case."""
    optimiser: Literal["adam", "sgd"] = "adam"
    """Ascent rule: Adam (the authors' release) or the plain gradient (the paper's text)."""
    damping: Annotated[float, above(0, 1)] = 1e-8
    """Of Adam: what is added to the root of its second moment. 1e-8 is Adam's own, under which every weight moves by
    about the rate; beside the gradient's usual size of 0.01 a step follows the gradient itself."""
    rule: Annotated[str, one_of(RULES)] = "importance"
    """Gradient: of Eq. 2 by importance weights (the paper), or by advantages of a critic; then a step is a pass."""
    policy_kl: Annotated[float, at_least(0, "0: no bound")] = 0.0
    """A second bound, on the mean KL of the actions, in nats per step; 0 for none (the paper)."""

    def __post_init__(self) -> None:
        check(self)
        with_adam = self.rule == "importance" or self.optimiser == "adam"
        require(with_adam, "optimiser", self.optimiser, "adam with the rule 'advantage'")
        by_weights = self.rule != "advantage" or self.reuse == 1
        require(by_weights, "reuse", self.reuse, "1 with the rule 'advantage', which weighs no paths")


@dataclass(frozen=True)
class CriticConfig:
    """The critic of the rule `advantage`, and what it is taught; nothing else reads it."""

    discount: Annotated[float, within(0, 1)] = 0.99
    """gamma: how far ahead a step is credited, about 1 / (1 - gamma) steps."""
    trace: Annotated[float, within(0, 1)] = 0.95
    """lambda of the generalised advantages: 0 trusts the critic, 1 the sampled future."""
    minibatch: Annotated[int, at_least(1)] = 1000
    """Particles of one gradient step, about: a pass over the batch makes N / minibatch of them."""
    clip: Annotated[float, between(0, 1)] = 0.2
    """A probability ratio beyond 1 +- clip brings no further gain."""
    critic_rate: Annotated[float, above(0, 1)] = 1e-3
    """Step size of the critic."""
    critic_steps: Annotated[int, at_least(1)] = 100
    """Regression steps of the critic per epoch."""
    critic_hidden: Annotated[tuple[int, ...], widths()] = (64, 64)
    """Widths of its hidden layers."""
    critic_units: Literal["tanh", "relu"] = "tanh"
    """Its hidden units. A value by `relu` goes on as it went beyond the states that it knows; one by `tanh` levels
    off."""
    optimism: Annotated[float, at_least(0)] = 0.0
    """Mean of the rewards that the critic learns; their spread is 1. To a critic that knows them it is all one; one
    that begins at zero has to rise, and with `relu` it rises most where it has seen nothing yet."""
    order: Annotated[float, above(0, 1)] = 1.0
    """alpha of the Renyi entropy that is climbed; 1 is the paper's, Shannon's. The lower, the more a particle in a
    thin place is worth. What is measured is Shannon's in any case."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class PolicyConfig:
    """The Gaussian policy and its start."""

    hidden: Annotated[tuple[int, ...], widths()] = (300, 300)
    """Widths of the hidden ReLU layers."""
    log_std: Annotated[float, within(-20, 5)] = -0.5
    """Initial ln of the standard deviation of every action."""
    noise_correlation: Annotated[float, within(0, 0.999)] = 0.0
    """rho: how much of a step's action noise is left in the next; 0 is the paper's white noise."""
    policies: Annotated[int, within(1, 1000)] = 1
    """Policies whose visited states are pooled: one network with a head per policy, each acting in every so many-th
    trajectory; 1 is the paper's single policy."""
    symmetric: bool = False
    """Do in a mirrored state what the mirrored action is, where the environment names its mirrors (Ant, Humanoid,
    GridWorld): what is learnt on one side is known on the other. The paper's policy learns each side by itself."""
    zero_mean_steps: Annotated[int, at_least(0)] = 100
    """Regression steps that bring the initial mean to zero; 0 leaves the Xavier start."""
    mirror: bool = False
    """Start from a mean of exactly zero: units of the last hidden layer in pairs that cancel, before any regression."""
    scale_inputs: bool = False
    """Map each bounded observation coordinate to +-input_range at the network's input (the paper feeds raw states)."""
    standardise: bool = False
    """Bring each unbounded coordinate to mean 0 and spread input_range, by the states of the first batch.
    Needs `mirror`, whose mean is zero at any input scale: the policy then stays the one that sampled the batch."""
    input_range: Annotated[float, above(0)] = 1.0
    """Half-width of that range, or that spread: the larger, the finer the features that the initial network sees."""

    def __post_init__(self) -> None:
        check(self)
        paired = bool(self.hidden) and self.hidden[-1] % 2 == 0
        require(paired or not self.mirror, "hidden", self.hidden, "even in its last width to be mirrored")
        alone = "1 with a symmetric policy: all would go the same ways (--no-symmetric)"
        require(self.policies == 1 or not self.symmetric, "policies", self.policies, alone)
        require(self.mirror or not self.standardise, "standardise", self.standardise, "used with mirror alone")

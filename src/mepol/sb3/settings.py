"""What TRPO, PPO and SAC are told, apart from the library that runs them: settings are read without it, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ValueTarget = Literal["reward-to-go", "lambda"]
"""What a value function learns: discounted reward-to-go, or the lambda-returns of GAE."""

FISHER_EVERY = 10
"""Every tenth state has a part in TRPO's Fisher products, as in the TRPO paper's appendix C."""


@dataclass(frozen=True)
class TrpoSettings:
    """One TRPO, for fine-tuning and for MaxEnt. Where MaxEnt differs, it says so."""

    steps: int
    """T, steps of each sub-environment in an update."""
    kl: float
    """Trust region on the mean KL of the action distributions, in nats."""
    discount: float
    gae_lambda: float
    cg_steps: int
    """Conjugate-gradient steps."""
    cg_damping: float
    backtrack: float
    """Factor of the line search."""
    max_backtracks: int
    value_rate: float
    """Learning rate of the value function (Adam)."""
    value_passes: int
    """Passes over the batch to fit the value function."""
    value_batch: int
    """Steps that each of its updates sees."""
    fisher_every: int = FISHER_EVERY
    """Fisher products use every so many-th state; 1 for all of them."""


@dataclass(frozen=True)
class PpoSettings:
    """One PPO, for fine-tuning and for explorers that are paid by an intrinsic reward."""

    rate: float
    """Learning rate of actor and critic (Adam)."""
    clip: float
    """How far from 1 a ratio of action probabilities still counts."""
    discount: float
    trace: float
    """lambda of the generalised advantages."""
    passes: int
    """Passes over a batch, at most."""
    minibatch: int
    """Steps of one gradient step."""
    kl: float
    """Passes end where the mean KL of the actions exceeds 1.5 times this, in nats; 0 for no bound."""
    entropy: float = 0.0
    """Weight of the entropy of the actions."""


@dataclass(frozen=True)
class SacSettings:
    """One SAC, for fine-tuning and for explorers that are paid by an intrinsic reward."""

    rate: float
    """Learning rate of actor, critics and temperature (Adam)."""
    discount: float
    batch: int
    """Transitions of one gradient step."""
    buffer: int
    """Transitions that are remembered."""
    tau: float
    """Share of the critics that their targets take over at each step."""
    entropy: float = -1.0
    """Entropy of each action, in nats of [-1, 1], that the temperature is steered to: the library's own by default."""

"""What TRPO is told, apart from the library that runs it: settings are read where that is not installed, too."""

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

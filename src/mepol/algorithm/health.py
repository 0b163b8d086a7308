"""What may go wrong numerically in an epoch, said in the epoch where it happens."""

from __future__ import annotations

import warnings

from mepol.algorithm.ascent import Rule
from mepol.algorithm.config import AscentConfig
from mepol.algorithm.loop import Epoch
from mepol.errors import CollapseError, MepolWarning

LOW_ESS = 0.01  # share of the batch below which its weights count as collapsing; two particles always do


class Watch:
    """Warns where the run can go on, stops it where it cannot.

    rule: how the run climbs, which says what can go wrong with it.
    last: batch entropy of the epoch before, in nats, where there was one: a resumed run is judged as one never
    stopped would be.
    """

    def __init__(self, config: AscentConfig, rule: Rule, last: float | None = None) -> None:
        self._config, self._rule = config, rule
        self._last = last

    def check(self, update: Epoch) -> None:
        """Compare the epoch with the one before; raises CollapseError on a cliff."""
        drop = self._config.max_entropy_drop
        if self._last is not None and update.entropy < self._last - drop:
            raise CollapseError(
                f"the entropy fell from {self._last:.3f} to {update.entropy:.3f} nats in epoch {update.epoch}, more "
                f"than max_entropy_drop = {drop:g}; start again with a lower learning_rate or kl_threshold, "
                "or raise max_entropy_drop in config.json and resume"
            )
        self._last = update.entropy
        if not update.accepted:
            self._warn(
                f"epoch {update.epoch}: none of {len(update.steps)} steps stayed in the trust region; "
                "the policy is unchanged; lower learning_rate"
            )
        elif self._rule.weights_matter and update.ess < max(2.0, LOW_ESS * update.particles):
            self._warn(
                f"epoch {update.epoch}: importance weights are collapsing, effective sample size "
                f"{update.ess:.1f} of {update.particles}; lower learning_rate or kl_threshold"
            )

    @staticmethod
    def _warn(text: str) -> None:
        warnings.warn(text, MepolWarning, stacklevel=4)

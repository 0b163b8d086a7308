"""The policy that is kept, where it is not the newest: the mean of the weights that the last epochs ended with.

A rule that takes the batch's density as fixed runs after what is empty, and where space is bounded it swings: each
policy lacks what the one before had. Their mean does not (Polyak averaging; what it brings: docs/results/averaging.md).
"""

from __future__ import annotations

import copy

import torch

from mepol.algorithm.policy import Policy


class Average:
    """A running mean of a policy's weights."""

    def __init__(self, policy: Policy, keep: float) -> None:
        """keep: share of the mean that an epoch leaves as it is; it looks back over about 1 / (1 - keep) epochs."""
        self.policy, self._keep = copy.deepcopy(policy), keep

    @torch.no_grad()
    def take(self, newest: Policy, learnt: int) -> None:
        """Take in the policy after `learnt` epochs. The first ones count alike, the initial policy not at all."""
        share = max(1 - self._keep, 1 / learnt)
        for mean, new in zip(self.policy.state_dict().values(), newest.state_dict().values(), strict=True):
            if mean.is_floating_point():
                mean.lerp_(new, share)
            else:
                mean.copy_(new)

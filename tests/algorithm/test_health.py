"""What an epoch warns of depends on what the ascent rule relies on."""

from __future__ import annotations

import warnings

import pytest

from mepol.algorithm import RULES, AscentConfig, Epoch, Step, Watch
from mepol.errors import CollapseError, MepolWarning


def epoch(ess: float, entropy: float = 1.0, accepted: bool = True) -> Epoch:
    return Epoch(3, 1000, entropy, (Step(accepted, 1e-4, entropy, 0.5, ess),))


def test_few_effective_particles_are_a_warning_where_the_climb_weighs_them() -> None:
    with pytest.warns(MepolWarning, match="effective sample size 9.0 of 1000"):
        Watch(AscentConfig(), RULES["importance"]).check(epoch(9.0))


def test_few_effective_particles_are_none_where_a_critic_judges() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Watch(AscentConfig(), RULES["advantage"]).check(epoch(9.0))


@pytest.mark.parametrize("rule", RULES)
def test_a_climb_without_a_step_and_a_cliff_are_told_under_every_rule(rule: str) -> None:
    watch = Watch(AscentConfig(), RULES[rule], last=1.0)
    with pytest.warns(MepolWarning, match="none of 1 steps"):
        watch.check(epoch(1000.0, accepted=False))
    with pytest.raises(CollapseError, match=r"from 1.000 to -9.500 nats in epoch 3"):
        watch.check(epoch(1000.0, entropy=-9.5))

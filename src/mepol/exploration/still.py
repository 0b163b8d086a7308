"""Explorers that do not learn: the policy that MEPOL starts from (the paper's "random"), and uniform actions."""

from __future__ import annotations

import numpy as np

from mepol.exploration.explorers import Explorer, Improvement
from mepol.exploration.policies import make_policy
from mepol.exploration.workshop import Workshop
from mepol.sampling.actors import Mixture, UniformActor
from mepol.sampling.collect import Actor


class Still(Explorer):
    """Something that acts and is measured, and nothing else."""

    def __init__(self, workshop: Workshop, actor: Actor) -> None:
        super().__init__(workshop)
        self._actor = actor

    def actor(self) -> Actor:
        """What it has always been."""
        return self._actor

    def improve(self, epoch: int) -> Improvement:
        """Nothing: a run of it has one row, about its first and last policy."""
        raise AssertionError("an explorer that does not learn has no epochs")


def random_explorer(workshop: Workshop) -> Still:
    """The policy before any training: a zero-mean Gaussian, or choices as good as uniform."""
    return Still(workshop, make_policy(workshop.config, workshop.domain))


def uniform_explorer(workshop: Workshop) -> Still:
    """Uniform actions: a mixture with nothing beside them, so that it can be stored and loaded like any other.

    Where actions are discrete, a policy with the weights of a run's first and an output layer of zeros: a fine-tuning
    can begin as it.
    """
    if workshop.domain.choices is not None:
        policy = make_policy(workshop.config, workshop.domain)
        policy.level()
        return Still(workshop, policy)
    uniform = UniformActor.over(workshop.domain.action_space)
    return Still(workshop, Mixture(uniform, (), np.ones(1)))

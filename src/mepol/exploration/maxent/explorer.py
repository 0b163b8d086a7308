"""MaxEnt as an explorer: an epoch is a round, which adds one policy to the mixture."""

from __future__ import annotations

import dataclasses
import itertools
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mepol.algorithm.policy import GaussianPolicy
from mepol.envs.coordinates import select_coordinates
from mepol.errors import CheckpointError, ConfigError
from mepol.exploration.explorers import Explorer, Improvement
from mepol.exploration.maxent.config import MAX_MIXTURE
from mepol.exploration.maxent.maxent import Reward, maxent
from mepol.exploration.maxent.mixture import mixture_weights
from mepol.exploration.maxent.oracle import batch_shape, train
from mepol.exploration.policies import input_scaling
from mepol.exploration.workshop import Workshop
from mepol.runs.networks import MAX_PARAMETERS
from mepol.runs.state import State
from mepol.runs.streams import Stream, stream
from mepol.sampling.actors import Mixture, UniformActor
from mepol.sampling.collect import Actor


class MaxEntExplorer(Explorer):
    """A mixture that starts as uniform actions alone. What a round draws depends on the seed and its number alone."""

    def __init__(self, workshop: Workshop) -> None:
        super().__init__(workshop)
        config, domain = self.config, self.domain
        if not config.ignore_termination:
            raise ConfigError("ignore_termination = False is not possible: MaxEnt rolls on past the end of episodes")
        if domain.choices is not None:
            gaussian = f"its policies are Gaussians, and {domain.env} has discrete actions"
            raise ConfigError(f"explorer = 'maxent' is not possible: {gaussian}")
        self._features = select_coordinates(config.rival.density_features, domain.names)
        uniform = UniformActor.over(domain.action_space)
        self.mixture = Mixture(uniform, (), mixture_weights(1, "uniform"), config.rival.mixture_draw)
        self._roll_s = 0.0

    def actor(self) -> Actor:
        """The mixture."""
        return self.mixture

    def improve(self, epoch: int) -> Improvement:
        """One round."""
        began = time.perf_counter()
        rival = self.config.rival
        done = next(maxent(self.mixture, self._roll, self._train, rival, features=self._features, seed=self._thinning))
        self.mixture = done.mixture
        rest = time.perf_counter() - began - self._roll_s
        return Improvement(done.samples, {"sample_s": round(self._roll_s, 4), "optimise_s": round(rest, 4)})

    def state(self, turn: int) -> State:
        """The mixture's policies; a checkpoint of a later round is given as many to fill."""
        if turn != len(self.mixture.policies):
            size, kind = (self.domain.state_dim, self.domain.action_dim), self.config.rival.mixture_weights
            each = sum(a * b for a, b in itertools.pairwise((size[0], *self.config.policy.hidden, size[1])))
            if turn > MAX_MIXTURE or turn * each > MAX_PARAMETERS:  # before they are made: the number is out of a file
                raise CheckpointError(f"a mixture of {turn} policies with {each} weights each is not possible")
            blank = tuple(GaussianPolicy(*size, self.config.policy.hidden) for _ in range(turn))
            weights = mixture_weights(1 + turn, kind if turn else "uniform")
            self.mixture = dataclasses.replace(self.mixture, policies=blank, weights=weights)
        return State({f"policy.{i}": policy for i, policy in enumerate(self.mixture.policies)}, {})

    def _roll(self, r: int, mixture: Mixture) -> NDArray[np.float64]:
        """(N, S) states that the mixture visits."""
        began, rival = time.perf_counter(), self.config.rival
        seed = stream(self.config.seed, Stream.DENSITY, r)
        batch = self.workshop.collect(mixture, rival.density_trajectories, rival.density_horizon, seed)
        self._roll_s = time.perf_counter() - began
        return batch.particles(tuple(range(self.domain.state_dim)))

    def _train(self, r: int, reward: Reward) -> tuple[GaussianPolicy, int]:
        config, size = self.config, self.domain.state_dim
        shift, scale = np.zeros(size), np.ones(size)
        if config.policy.scale_inputs:
            shift, scale = input_scaling(self.domain, config.policy.input_range)
        env: Any = self.workshop.env(batch_shape(config)[0])
        return train(env, reward, config, stream(config.seed, Stream.ORACLE, r), shift=shift, scale=scale)

    def _thinning(self, r: int) -> np.random.SeedSequence:
        return stream(self.config.seed, Stream.DENSITY, r).spawn(3)[2]  # the first two are the sampler's

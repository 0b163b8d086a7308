"""The policy that a run starts from, and the scale of what a network is shown."""

from __future__ import annotations

import warnings
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mepol.algorithm.batch import Batch
from mepol.algorithm.categorical import CategoricalPolicy
from mepol.algorithm.config import PolicyConfig
from mepol.algorithm.doubt import doubt
from mepol.algorithm.policy import GaussianPolicy
from mepol.algorithm.population import PopulationPolicy
from mepol.algorithm.symmetry import Symmetry, even_inputs
from mepol.envs.domain import Domain
from mepol.errors import MepolWarning
from mepol.exploration.config import ExploreConfig
from mepol.runs.streams import Stream, stream
from mepol.settings import require

Made = GaussianPolicy | PopulationPolicy | CategoricalPolicy
"""What a run can start from."""


def make_policy(config: ExploreConfig, domain: Domain) -> Made:
    """The initial policy of a run: seeded weights, then a zero mean, or equal choices, over the observation space."""
    policy = _with_weights(config.policy, domain, np.random.default_rng(stream(config.seed, Stream.WEIGHTS)))
    if config.policy.scale_inputs:
        shift, scale = input_scaling(domain, config.policy.input_range)
        policy.shift.copy_(torch.from_numpy(shift))
        policy.scale.copy_(torch.from_numpy(scale))
        even_inputs(policy.shift, policy.scale, policy.symmetries)
    if config.policy.mirror:
        policy.mirror()
    if config.policy.zero_mean_steps:
        rng = np.random.default_rng(stream(config.seed, Stream.ZERO_MEAN))
        policy.centre(domain.space, rng, steps=config.policy.zero_mean_steps)
    return policy


def _with_weights(own: PolicyConfig, domain: Domain, rng: np.random.Generator) -> Made:
    if domain.choices is None:
        sizes = domain.state_dim, domain.action_dim
        policy: GaussianPolicy | PopulationPolicy = GaussianPolicy(
            *sizes, own.hidden, own.noise_correlation, domain.picture
        )
        if own.policies > 1:
            policy = PopulationPolicy(*sizes, own.policies, own.hidden, own.noise_correlation)
        policy.initialise(rng, log_std=own.log_std)
        if own.symmetric and isinstance(policy, GaussianPolicy):
            named = f"off in {domain.env}, which names no symmetries (docs/guide/environments.md)"
            require(bool(domain.symmetries), "symmetric", own.symmetric, named)
            policy.tie(domain.symmetries)
        return policy
    require(not own.symmetric, "symmetric", own.symmetric, f"off where actions are discrete, as those of {domain.env}")
    discrete = f"0 where actions are discrete, as those of {domain.env}: there is no noise that could be carried on"
    require(own.noise_correlation == 0, "noise_correlation", own.noise_correlation, discrete)
    require(own.policies == 1, "policies", own.policies, f"1 where actions are discrete, as those of {domain.env}")
    choosing = CategoricalPolicy(domain.state_dim, domain.choices, own.hidden, domain.picture)
    choosing.draw_weights(rng)
    return choosing


def input_scaling(domain: Domain, reach: float = 1.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(S,) shift and scale that bring each bounded coordinate to +-reach and leave the others as they are."""
    return domain.middle, np.where(domain.bounded, domain.half_width / reach, 1.0)


class Shown(Protocol):
    """What is shown (s - shift) / scale, both (S,); they are to be like those of its symmetries' images."""

    shift: Tensor
    scale: Tensor
    symmetries: tuple[Symmetry, ...]


def take_first_batch(policy: Shown, batch: Batch, domain: Domain, own: PolicyConfig) -> None:
    """What a new policy makes of the first batch it drew: whether its mirrors are true, and what scale inputs have."""
    for number, symmetry in enumerate(policy.symmetries, start=1):
        if (why := doubt(batch, symmetry)) is not None:
            name = domain.names[why.coordinate]
            warnings.warn(
                f"symmetry {number} of {domain.env} does not look true: with the images of the first batch's steps a "
                f"linear forecast of {name!r} explains {why.lost:.2f} of its variance less than without them, by "
                f"{why.errors:.0f} standard errors; see which coordinates and actions it exchanges and turns, or leave "
                "symmetric off",
                MepolWarning,
                stacklevel=2,
            )
    if own.standardise:
        standardise_inputs(policy, batch, domain, own.input_range)


@torch.no_grad()
def standardise_inputs(policy: Shown, batch: Batch, domain: Domain, reach: float) -> None:
    """Bring the unbounded coordinates of a batch's states to mean 0 and spread `reach` at the network's input.

    One that never moves keeps its scale. A mirrored policy's mean is zero whatever it is shown: it acts as before.
    """
    states = batch.states[:, :-1][batch.visited()]  # (N, S)
    spread = states.std(axis=0)
    unbounded = ~(np.isfinite(domain.low) & np.isfinite(domain.high))
    chosen = torch.from_numpy(unbounded & (spread > 0))
    policy.shift[chosen] = torch.from_numpy(states.mean(axis=0)).to(policy.shift)[chosen]
    policy.scale[chosen] = torch.from_numpy(spread / reach).to(policy.scale)[chosen]
    even_inputs(policy.shift, policy.scale, policy.symmetries)

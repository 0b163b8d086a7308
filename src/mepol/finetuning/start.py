"""What a learner starts from: nothing, or whatever an exploration left.

it left                 TRPO and PPO begin as                                       SAC and the rivals on it
a Gaussian policy       exactly that policy, with white noise of its spread         fill their memory with it
a categorical policy    exactly that policy                                         cannot: they draw real numbers
a mixture               its newest policy                                           fill their memory with it
uniform actions         a Gaussian with the middle and the spread of the box        fill their memory with it
a squashed policy       cannot: a tanh has no equal among clipped Gaussians         fill their memory with it
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mepol.algorithm.categorical import CategoricalPolicy
from mepol.algorithm.policy import GaussianPolicy
from mepol.envs.choices import choices_of
from mepol.errors import ConfigError, MepolWarning
from mepol.finetuning.config import FinetuneConfig
from mepol.runs.start import SCRATCH
from mepol.runs.streams import Stream, stream
from mepol.sampling.actors import Mixture, check_fit

Start = GaussianPolicy | CategoricalPolicy


def explorer_name(init: str, which: str = "last") -> str:
    """What a start is called, with its seed: the run's directory, for a policy file in it too, or the file's own name.

    The best and the initial policy of a run are called so.
    """
    if init == SCRATCH:
        return "scratch"
    path = Path(init).absolute()
    files = {"policy": "last", "best": "best", "initial": "initial"}
    if path.suffix == ".safetensors" and path.stem in files:
        path, which = path.parent, files[path.stem]
    return path.name if which == "last" else f"{path.name}-{which}"


def start_policy(config: FinetuneConfig, start: Any, state_dim: int, box: Any) -> Start:
    """The policy that an on-policy learner begins as; for the others the one whose widths they take.

    box: the action space. PolicyFileError where `start` is for another environment, or cannot be begun as.
    """
    choices = choices_of(box)
    if choices is not None and not config.on_policy:
        raise ConfigError(
            f"algo = {config.algo!r} is not possible with discrete actions: it draws real numbers; use trpo or ppo"
        )
    if start is None:
        return scratch_policy(config, state_dim, box)
    check_fit(start, state_dim, box, config.task)
    if isinstance(start, GaussianPolicy | CategoricalPolicy):
        return start
    if isinstance(start, Mixture):
        return start.policies[-1] if start.policies else as_wide_as(box, config, state_dim)
    if config.on_policy:
        raise ConfigError(
            f"init = {config.init!r} is not possible with {config.algo}: a {type(start).__name__} is no Gaussian; "
            "start from an exploration, or use sac, which fills its memory with it"
        )
    return scratch_policy(config, state_dim, box)


def tell_what_is_lost(config: FinetuneConfig, start: Any) -> None:
    """A MepolWarning where an on-policy learner cannot go on with all of `start`: its likelihoods know no step before.

    What a policy with correlated noise draws at one time is N(mean, spread^2) as with white noise; that is carried.
    """
    rho = start.correlation if isinstance(start, GaussianPolicy) else 0.0
    if config.on_policy and rho:
        text = (
            f"{config.init} has action noise of correlation {rho:g}, which {config.algo} does not carry on: "
            "it begins with that policy's mean and white noise of its spread"
        )
        warnings.warn(text, MepolWarning, stacklevel=3)


def scratch_policy(config: FinetuneConfig, state_dim: int, space: Any) -> Start:
    """The random start: Xavier weights, no zero-mean regression, as in the authors' release."""
    rng, choices = np.random.default_rng(stream(config.seed, Stream.TASK_WEIGHTS)), choices_of(space)
    if choices is None:
        gaussian = GaussianPolicy(state_dim, space.shape[0], config.hidden)
        gaussian.initialise(rng, log_std=config.log_std)
        return gaussian
    policy = CategoricalPolicy(state_dim, choices, config.hidden)
    policy.draw_weights(rng)
    return policy


@torch.no_grad()
def as_wide_as(box: Any, config: FinetuneConfig, state_dim: int) -> GaussianPolicy:
    """A Gaussian with the mean and deviation of uniform actions over `box`, whatever the state."""
    policy = scratch_policy(config, state_dim, box)
    assert isinstance(policy, GaussianPolicy)
    last = policy.layers[-1]
    assert isinstance(last, torch.nn.Linear)
    last.weight.zero_()
    last.bias.copy_(torch.from_numpy((box.low + box.high) / 2))
    policy.log_std.copy_(torch.log(torch.from_numpy((box.high - box.low) / math.sqrt(12.0))))
    return policy

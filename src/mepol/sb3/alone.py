"""A learner of Stable-Baselines3 that has no environment: its batches come from our sampler."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box

from mepol.sb3.library import Logger


def set_up(model: Any, size: int, space: Box) -> Any:
    """Make the networks of `model`, which was made with `_init_setup_model=False`, and silence its log.

    As the library's own `load` does it: spaces first, then the networks. size: coordinates of a state; space: actions.
    """
    model.observation_space = Box(-np.inf, np.inf, (size,), np.float32)
    model.action_space, model.n_envs = space, 1
    model._setup_model()
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model

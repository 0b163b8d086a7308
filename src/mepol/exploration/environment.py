"""What a run's settings mean for its environment: how it is made, what is known of it, how it is measured."""

from __future__ import annotations

import os
from typing import Any

from gymnasium.vector import VectorEnv

from mepol.envs.domain import Domain
from mepol.envs.make import make_env
from mepol.evaluation.assess import Protocol
from mepol.exploration.config import ExploreConfig


def env_of(config: ExploreConfig, num_envs: int) -> VectorEnv[Any, Any, Any]:
    """`num_envs` copies of a run's environment."""
    return make_env(
        config.env,
        num_envs,
        ignore_termination=config.ignore_termination,
        time_limit=config.env_time_limit,
        threads=config.threads,
    )


def domain_of(env: VectorEnv[Any, Any, Any], config: ExploreConfig) -> Domain:
    """What a run needs to know of its environment."""
    settings = config.evaluation
    return Domain.of(
        env,
        name=config.env,
        features=config.features,
        scale_features=config.scale_features,
        heatmap_axes=settings.heatmap_axes,
        heatmap_low=settings.heatmap_low,
        heatmap_high=settings.heatmap_high,
        heatmap_bins=settings.heatmap_bins,
        ceiling=config.ceiling,
    )


def protocol_of(config: ExploreConfig, trajectories: int, *, k: int | None = None, **more: Any) -> Protocol:
    """How a run's policies are measured: with its T, k (unless given), eps and threads; `more` of Protocol's fields."""
    return Protocol(
        horizon=config.horizon,
        k=config.ascent.k if k is None else k,
        eps=config.ascent.eps,
        trajectories=trajectories,
        workers=config.threads or os.cpu_count() or 1,
        time_limit=config.env_time_limit,
        **more,
    )

"""The environment of a run: how it is made, and what its spaces and names say."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv

from mepol.envs.coordinates import feature_names, select_features
from mepol.errors import ConfigError, EnvironmentFault
from mepol.evaluation import Grid
from mepol.exploration.config import ExploreConfig
from mepol.sampling.collect import check_spaces, guard


class Unending(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Hides the end of episodes, so that a trajectory goes on through them."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, with `terminated` and `truncated` always false."""
        obs, reward, _, _, info = self.env.step(action)
        return obs, reward, False, False, info


def make_env(
    env_id: str, num_envs: int, *, ignore_termination: bool = True, time_limit: float = 0.0, threads: int = 0
) -> VectorEnv[Any, Any, Any]:
    """`num_envs` copies of a registered environment, native where it has a vector entry point.

    threads: of environments that step on several (0: as many as they like).
    """
    try:
        spec = gymnasium.spec(env_id)
    except Exception as fault:  # an id may name a module to import, which runs code of its own
        raise EnvironmentFault(f"cannot make the environment {env_id!r}: {fault}") from fault
    with guard(f"construction as {env_id!r}", time_limit):
        if spec.vector_entry_point is not None:
            options: dict[str, Any] = (
                {"threads": threads} if threads and _takes_threads(spec.vector_entry_point) else {}
            )
            return gymnasium.make_vec(env_id, num_envs, vectorization_mode="vector_entry_point", **options)
        return gymnasium.make_vec(
            env_id,
            num_envs,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": AutoresetMode.NEXT_STEP},
            wrappers=[Unending] if ignore_termination else None,
        )


def _takes_threads(entry_point: Any) -> bool:
    creator = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    return "threads" in inspect.signature(creator).parameters


def env_of(config: ExploreConfig, num_envs: int) -> VectorEnv[Any, Any, Any]:
    """`num_envs` copies of a run's environment."""
    return make_env(
        config.env,
        num_envs,
        ignore_termination=config.ignore_termination,
        time_limit=config.machine.env_time_limit,
        threads=config.machine.threads,
    )


@dataclass(frozen=True)
class Domain:
    """What a run needs to know of its environment."""

    space: Box
    action_dim: int
    names: tuple[str, ...]
    features: tuple[int, ...]
    widths: tuple[float, ...]  # units of distance for each entropy feature
    grid: Grid | None

    @staticmethod
    def of(env: VectorEnv[Any, Any, Any], config: ExploreConfig) -> Domain:
        """Read the spaces and resolve feature names; every fault is named before anything is written."""
        space, action_space = check_spaces(env)
        names = feature_names(env, space.shape[0])
        features = select_features(config.features, names)
        widths = np.ones(len(features))
        if config.scale_features:
            widths = (space.high - space.low)[list(features)].astype(np.float64)
            for i, width in zip(features, widths, strict=True):
                if not 0 < width < np.inf:
                    raise ConfigError(
                        f"feature {names[i]!r} has width {width:g}: scale_features needs bounded features"
                    )
        return Domain(
            space, int(action_space.shape[0]), names, features, tuple(widths.tolist()), _grid(config, space, names)
        )


def _grid(config: ExploreConfig, space: Box, names: tuple[str, ...]) -> Grid | None:
    """The grid of visits. Nobody asked for one, and the range is unknown or there is but one coordinate: None."""
    settings = config.evaluation
    asked = settings.heatmap_axes != "0,1" or settings.heatmap_low or settings.heatmap_high
    if len(names) < 2 and not asked:
        return None
    axes = select_features(settings.heatmap_axes, names)
    if len(axes) != 2:
        raise ConfigError(f"heatmap_axes = {settings.heatmap_axes!r} must name two coordinates")
    at = list(axes)
    low = settings.heatmap_low or tuple(space.low[at].astype(float).tolist())
    high = settings.heatmap_high or tuple(space.high[at].astype(float).tolist())
    if not asked and not np.isfinite([*low, *high]).all():
        return None
    return Grid((axes[0], axes[1]), (names[axes[0]], names[axes[1]]), low, high, settings.heatmap_bins)


@contextmanager
def closing(env: VectorEnv[Any, Any, Any], time_limit: float = 0.0) -> Iterator[VectorEnv[Any, Any, Any]]:
    """Close the environment at the end, whatever happens; a fault in that does not hide an earlier one."""
    try:
        yield env
    except BaseException:
        with suppress(EnvironmentFault), guard("close", time_limit):
            env.close()
        raise
    with guard("close", time_limit):
        env.close()

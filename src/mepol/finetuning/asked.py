"""What a user asks for in Python, as settings of a fine-tuning and as the task that no settings hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mepol.envs.coordinates import name_of
from mepol.envs.make import limit_of
from mepol.errors import ConfigError
from mepol.evaluation.assess import Protocol
from mepol.finetuning.config import FinetuneConfig
from mepol.finetuning.presets import default_config
from mepol.finetuning.tasks import DEFAULT_HORIZON, TASKS, Task, is_environment
from mepol.settings import GIVEN


def asked_task(
    what: Any,
    env: Any,
    *,
    explored_in: Any = None,
    explored_for: int | None = None,
    horizon: int | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> tuple[FinetuneConfig, Task | None]:
    """Settings of a task, and the task itself where it is made of objects.

    what: a task, a goal (`module:function`, or a function of states), an environment whose own reward is meant, or None
    for that of `env`. env: where a goal is to be reached; None for `explored_in`, where the run that it starts from
    took place, in trajectories of `explored_for` steps. kwargs: of the environment's construction.
    """
    if isinstance(what, str) and what in TASKS:
        if env is not None:
            raise ConfigError(f"the task {what!r} has its own environment: leave env out")
        return default_config(what), None
    goal = what
    if env is None and what is not None and is_environment(what):
        env, goal = what, None
    if isinstance(goal, str) and ":" not in goal:
        return default_config(goal), None  # which says that there is none, and what there is
    place = env if env is not None else explored_in
    if place is None:
        raise ConfigError("a goal of one's own needs an environment: give env=, or init= with a run")
    own = limit_of(place, kwargs) if goal is None and horizon is None else None
    steps = horizon or own or explored_for or DEFAULT_HORIZON
    where = place if isinstance(place, str) else f"{GIVEN}{name_of(place)}"
    if isinstance(goal, str):
        return default_config(goal, where, horizon=steps), None
    config = default_config(where if goal is None else f"{GIVEN}{name_of(goal)}", where, horizon=steps)
    return config, None if goal is None and isinstance(place, str) else Task(place, goal, steps)


def after(config: FinetuneConfig, explored: Any, protocol: Protocol) -> FinetuneConfig:
    """`config` as it must be after the exploration with the settings `explored`, which was measured by `protocol`.

    A policy's actions mean what they meant where it was learnt, and its environment is made as it was there; coverage
    is measured as it was there, unless it is said how.
    """
    config = measured_by(config, protocol)
    changes: dict[str, Any] = {"unit_actions": explored.unit_actions}
    if config.env and config.env == explored.env and not config.env_kwargs:
        changes["env_kwargs"] = explored.env_kwargs
    return dataclasses.replace(config, **changes)


def measured_by(config: FinetuneConfig, protocol: Protocol) -> FinetuneConfig:
    """`config` with the k and eps of `protocol` where it has none."""
    k = protocol.k if config.k is None else config.k
    return dataclasses.replace(config, k=k, eps=protocol.eps if config.eps is None else config.eps)

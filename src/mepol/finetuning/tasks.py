"""The paper's seven sparse tasks, registered with Gymnasium, and tasks of the user's own.

name           id                      start                                goal                         horizon
grid-goal1     mepol/GridGoal1-v0      GridWorld's corner                   within 0.1 of (5, 5)         1200
grid-goal2     mepol/GridGoal2-v0      the same                             within 0.1 of (2, 5)         1200
grid-goal3     mepol/GridGoal3-v0      the same                             within 0.1 of (5, 2)         1200
ant-escape     mepol/AntEscape-v0      a pool of 100: on its back           on its legs, hips >= 0.8 m   500
ant-jump       mepol/AntJump-v0        Ant's                                torso above 3 m              500
ant-navigate   mepol/AntNavigate-v0    Ant's                                more than 7 m away           500
humanoid-up    mepol/HumanoidUp-v0     a pool of 100: on the ground         torso at 1 m or more         2000

A task without a goal is an environment's own, with its rewards and its ends of episodes, and is called as it is.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, VectorEnv

from mepol.envs.batched import BatchedEnv
from mepol.envs.coordinates import name_of
from mepol.envs.make import make_env
from mepol.envs.names import nearest, resolve
from mepol.errors import ConfigError, EnvironmentFault
from mepol.finetuning import goals
from mepol.finetuning.episodes import EpisodesVectorEnv, OwnRewardVectorEnv
from mepol.finetuning.goals import Goal, import_goal
from mepol.finetuning.reach import Reach, ReachVectorEnv
from mepol.settings import require_handed


@dataclass(frozen=True)
class Task:
    """A goal in a domain, or without one the domain's own reward."""

    env: Any
    """Gymnasium id of the domain, or what makes it."""
    goal: Goal | None
    horizon: int
    """Steps of an episode that does not end before."""
    id: str = ""
    """Gymnasium id of the task; empty for a user's own."""
    explorer: str = ""
    """Exploration preset whose policy the paper starts this task from."""
    pool: str = ""
    """Stored start states (finetuning/pools.py); empty for the domain's own starts."""


DEFAULT_HORIZON = 500
_GRID, _ANT, _HUMANOID = "mepol/GridWorld-v0", "mepol/Ant-v0", "mepol/Humanoid-v0"

TASKS: dict[str, Task] = {
    "grid-goal1": Task(_GRID, goals.near(5.0, 5.0), 1200, "mepol/GridGoal1-v0", "gridworld"),
    "grid-goal2": Task(_GRID, goals.near(2.0, 5.0), 1200, "mepol/GridGoal2-v0", "gridworld"),
    "grid-goal3": Task(_GRID, goals.near(5.0, 2.0), 1200, "mepol/GridGoal3-v0", "gridworld"),
    "ant-escape": Task(_ANT, goals.ant_escape, 500, "mepol/AntEscape-v0", "ant", pool="ant_escape"),
    "ant-jump": Task(_ANT, goals.ant_jump, 500, "mepol/AntJump-v0", "ant"),
    "ant-navigate": Task(_ANT, goals.ant_navigate, 500, "mepol/AntNavigate-v0", "ant-xy"),
    "humanoid-up": Task(_HUMANOID, goals.humanoid_up, 2000, "mepol/HumanoidUp-v0", "humanoid-xyz", pool="humanoid_up"),
}


def register_tasks() -> None:
    """Make the ids known to `gymnasium.make` and `gymnasium.make_vec`; calling it again changes nothing."""
    for name, task in TASKS.items():
        if task.id not in gymnasium.registry:
            gymnasium.register(
                id=task.id,
                entry_point="mepol.finetuning.tasks:single",
                vector_entry_point="mepol.finetuning.tasks:batched",
                kwargs={"task": name},
            )


def find_task(name: str, env: str = "", horizon: int | None = None) -> Task:
    """The task called `name`, or for `module:function` the user's own goal in the domain `env`.

    Where both are the same it is the domain's own reward.
    """
    require_handed("env", env, None)
    if env and name == env:
        return Task(env, None, horizon or DEFAULT_HORIZON)
    require_handed("goal", name, None)
    if ":" in name:
        if not env:
            raise ConfigError(f"the goal {name!r} needs an environment: add --env PRESET or --env ENV_ID")
        return Task(env, import_goal(name), horizon or DEFAULT_HORIZON)
    if name not in TASKS:
        close = get_close_matches(name, TASKS, 1) or nearest(name) or get_close_matches(name, TASKS, 1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}? " if close else ""
        others = "a goal module:function, or an environment whose own reward is meant"
        raise ConfigError(f"no task called {name!r}; {hint}tasks: {', '.join(TASKS)}, {others}")
    return TASKS[name]


def is_environment(thing: Any) -> bool:
    """Whether what a user names as a task is an environment instead: an id, a class, or a factory () -> Env.

    A function that needs an argument is a goal. The module of a name is imported, so it must come from the user.
    """
    if isinstance(thing, str):
        if thing in TASKS:
            return False
        try:
            thing = resolve(thing)
        except EnvironmentFault:
            return False
    if isinstance(thing, str):
        return True
    if isinstance(thing, type):
        return issubclass(thing, gymnasium.Env | VectorEnv)
    needed = (p for p in inspect.signature(thing).parameters.values() if p.default is p.empty)
    return not any(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in needed)


def make_task(
    task: Task,
    num_envs: int,
    *,
    horizon: int | None = None,
    threads: int = 0,
    time_limit: float = 0.0,
    unit_actions: bool = True,
    kwargs: Mapping[str, Any] | None = None,
) -> EpisodesVectorEnv:
    """`num_envs` copies of a task, native where its domain has a vector entry point.

    threads: of domains that step on several (0: as many as they like). time_limit: seconds per call (0: no limit).
    kwargs: of the domain's construction.
    """
    env = _domain(task, num_envs, kwargs, threads=threads, time_limit=time_limit, unit_actions=unit_actions)
    steps = horizon or task.horizon
    if task.goal is not None:
        return ReachVectorEnv(env, task.goal, steps, time_limit=time_limit)
    if isinstance(env, BatchedEnv):
        raise ConfigError(f"{name_of(task.env)!r} pays no reward of its own: name a task or a goal module:function")
    return OwnRewardVectorEnv(env, steps, time_limit=time_limit)


def batched(num_envs: int, task: str, render_mode: str | None = None, threads: int = 0) -> ReachVectorEnv:
    """Vector entry point of a registered task."""
    known = TASKS[task]
    assert known.goal is not None
    return ReachVectorEnv(_domain(known, num_envs, _drawn(render_mode), threads), known.goal, known.horizon)


def single(task: str, render_mode: str | None = None) -> Reach:
    """Single entry point of a registered task."""
    known = TASKS[task]
    domain = _domain(known, 1, _drawn(render_mode))
    assert isinstance(domain, BatchedEnv)
    assert known.goal is not None
    return Reach(domain, known.goal, known.horizon)


def _domain(
    task: Task,
    num_envs: int,
    kwargs: Mapping[str, Any] | None = None,
    threads: int = 0,
    time_limit: float = 0.0,
    unit_actions: bool = True,
) -> VectorEnv[Any, Any, Any]:
    """Where a task takes place; a goal hides its ends, since it and the horizon alone end an episode."""
    return make_env(
        place_of(task),
        num_envs,
        kwargs=kwargs,
        ignore_termination=task.goal is not None,
        threads=threads,
        time_limit=time_limit,
        unit_actions=unit_actions,
        autoreset=AutoresetMode.DISABLED,
    )


def _drawn(render_mode: str | None) -> dict[str, Any]:
    return {} if render_mode is None else {"render_mode": render_mode}


def place_of(task: Task) -> Any:
    """What makes the environment of a task: its domain's id, or its bodies with the stored starts."""
    return _from_pool(task) if task.pool else task.env


def _from_pool(task: Task) -> Callable[..., BatchedEnv]:
    from mepol.finetuning import bodies  # MuJoCo is not needed for the others

    kind = bodies.Humanoid if task.env == _HUMANOID else bodies.Ant
    return functools.partial(bodies.make_body, kind, task.pool)

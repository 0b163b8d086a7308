"""The paper's seven sparse tasks, registered with Gymnasium, and tasks of the user's own.

name           id                      start                                goal                         horizon
grid-goal1     mepol/GridGoal1-v0      GridWorld's corner                   within 0.1 of (5, 5)         1200
grid-goal2     mepol/GridGoal2-v0      the same                             within 0.1 of (2, 5)         1200
grid-goal3     mepol/GridGoal3-v0      the same                             within 0.1 of (5, 2)         1200
ant-escape     mepol/AntEscape-v0      a pool of 100: on its back           on its legs, hips >= 0.8 m   500
ant-jump       mepol/AntJump-v0        Ant's                                torso above 3 m              500
ant-navigate   mepol/AntNavigate-v0    Ant's                                more than 7 m away           500
humanoid-up    mepol/HumanoidUp-v0     a pool of 100: on the ground         torso at 1 m or more         2000
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, VectorEnv

from mepol.envs.batched import BatchedEnv
from mepol.envs.make import make_env
from mepol.errors import ConfigError
from mepol.finetuning import goals
from mepol.finetuning.goals import Goal, import_goal
from mepol.finetuning.reach import Reach, ReachVectorEnv
from mepol.settings import require_handed


@dataclass(frozen=True)
class Task:
    """A goal in a domain."""

    env: str
    """Gymnasium id of the domain."""
    goal: Goal
    horizon: int
    """Steps of an episode that does not reach the goal."""
    id: str = ""
    """Gymnasium id of the task; empty for a user's own."""
    explorer: str = ""
    """Exploration preset whose policy the paper starts this task from."""
    pool: str = ""
    """Stored start states (finetuning/pools.py); empty for the domain's own starts."""


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
    """The task called `name`, or for `module:function` the user's own goal in the domain `env`."""
    require_handed("goal", name, None)
    require_handed("env", env, None)
    if ":" in name:
        if not env:
            raise ConfigError(f"the goal {name!r} needs an environment: add --env PRESET or --env ENV_ID")
        return Task(env, import_goal(name), horizon or 500)
    if name not in TASKS:
        close = get_close_matches(name, TASKS, 1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ConfigError(f"no task called {name!r}; {hint}tasks: {', '.join(TASKS)}, or a goal module:function")
    return TASKS[name]


def make_task(
    task: Task,
    num_envs: int,
    *,
    horizon: int | None = None,
    threads: int = 0,
    time_limit: float = 0.0,
    unit_actions: bool = True,
) -> ReachVectorEnv:
    """`num_envs` copies of a task, native where its domain has a vector entry point.

    threads: of domains that step on several (0: as many as they like). time_limit: seconds per call (0: no limit).
    """
    env = _domain(task, num_envs, threads=threads, time_limit=time_limit, unit_actions=unit_actions)
    return ReachVectorEnv(env, task.goal, horizon or task.horizon, time_limit=time_limit)


def batched(num_envs: int, task: str, render_mode: str | None = None, threads: int = 0) -> ReachVectorEnv:
    """Vector entry point of a registered task."""
    known = TASKS[task]
    return ReachVectorEnv(_domain(known, num_envs, render_mode, threads), known.goal, known.horizon)


def single(task: str, render_mode: str | None = None) -> Reach:
    """Single entry point of a registered task."""
    known = TASKS[task]
    domain = _domain(known, 1, render_mode)
    assert isinstance(domain, BatchedEnv)
    return Reach(domain, known.goal, known.horizon)


def _domain(
    task: Task,
    num_envs: int,
    render_mode: str | None = None,
    threads: int = 0,
    time_limit: float = 0.0,
    unit_actions: bool = True,
) -> VectorEnv[Any, Any, Any]:
    """Where a task takes place; its ends are hidden, since an episode of a task ends at the goal or the horizon."""
    return make_env(
        place_of(task),
        num_envs,
        kwargs={} if render_mode is None else {"render_mode": render_mode},
        threads=threads,
        time_limit=time_limit,
        unit_actions=unit_actions,
        autoreset=AutoresetMode.DISABLED,
    )


def place_of(task: Task) -> Any:
    """What makes the environment of a task: its domain's id, or its bodies with the stored starts."""
    return _from_pool(task) if task.pool else task.env


def _from_pool(task: Task) -> Callable[..., BatchedEnv]:
    from mepol.finetuning import bodies  # MuJoCo is not needed for the others

    kind = bodies.Humanoid if task.env == _HUMANOID else bodies.Ant
    return functools.partial(bodies.make_body, kind, task.pool)

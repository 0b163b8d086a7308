"""Fresh episodes of a run's policy in the run's own environment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mepol.algorithm.batch import Batch
from mepol.elsewhere.episodes import LANES, Episode, played
from mepol.errors import ConfigError
from mepol.finetuning.goals import Goal
from mepol.finetuning.tasks import find_task
from mepol.runs.streams import Stream, stream
from mepol.sampling.actors import check_fit
from mepol.sampling.collect import collect


def run_episodes(
    run: Any, steps: int, *, which: str = "last", goal: str | Goal = "", seed: int = 0
) -> Iterator[list[Episode]]:
    """Rounds of episodes of a `mepol.Run`'s policy `which`, `steps` steps in all.

    goal: a task (`ant-jump`), `module:function`, or a function (M, S) -> (M,) bool, which gives the rewards; empty for
    none. What is played depends on run, policy and seed alone: more steps go on where fewer end.
    """
    actor, domain = run.load(which), run.domain
    check_fit(actor, domain.state_dim, domain.action_space, domain.env)
    reached = find_goal(goal, domain.env)
    limit = run.config.machine.env_time_limit
    with run.working(LANES) as env:

        def sample(number: int) -> Batch:
            return collect(actor, env, run.protocol.horizon, seed=stream(seed, Stream.DATA, number), time_limit=limit)

        yield from played(sample, steps, domain.action_low, domain.action_high, reached)


def find_goal(goal: str | Goal, env: str) -> Goal | None:
    """The goal of a task in `env`, a goal of one's own, or None where none is named."""
    if not isinstance(goal, str):
        return goal
    if not goal:
        return None
    task = find_task(goal, env)
    if task.env != env:
        raise ConfigError(f"the goal {goal!r} is one of {task.env!r}, and the run is in {env!r}")
    return task.goal

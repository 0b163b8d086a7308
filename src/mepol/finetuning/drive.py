"""Drive one fine-tuning: make its learner and its directory, and hand both to the loop."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mepol.algorithm.population import PopulationPolicy
from mepol.envs.domain import Domain
from mepol.errors import ConfigError
from mepol.finetuning.config import FinetuneConfig
from mepol.finetuning.entropy import EntropyTerm
from mepol.finetuning.episodes import EpisodesVectorEnv
from mepol.finetuning.heads import best_head
from mepol.finetuning.learners import LEARNERS, OffPolicy, OnPolicy
from mepol.finetuning.rows import FINETUNE, FinetuneRow, domain_of
from mepol.finetuning.start import start_policy, tell_what_is_lost
from mepol.finetuning.tasks import Task, find_task, make_task
from mepol.runs.callbacks import Callback, Progress
from mepol.runs.checkpoint import Position, restore
from mepol.runs.directory import RunDirectory
from mepol.runs.domain import keep_domain, load_domain
from mepol.runs.drive import Turn, drive, require_length
from mepol.runs.machine import threads_in_force
from mepol.runs.policies import policy_bytes
from mepol.runs.start import own_start
from mepol.runs.state import State
from mepol.runs.streams import Stream, stream
from mepol.sb3.adapter import BatchedVecEnv, Episode
from mepol.sb3.randomness import drawing_from

FinetuneRun = RunDirectory[FinetuneConfig, FinetuneRow]
Report = Callable[[Progress], None]


def finetune(
    config: FinetuneConfig,
    out: Path,
    *,
    start: Any = None,
    task: Task | None = None,
    domain: Callable[[Any], str] | None = None,
    callbacks: Sequence[Callback] = (),
    report: Report = lambda _: None,
) -> FinetuneRun:
    """Learn the task of `config` into the new directory `out`; everything is checked before `out` is made.

    start: what an exploration left, which the learner begins as or fills its memory with; None for scratch. Of a
    population it is the policy that earns most in this task before anything is learnt.
    task: where `config.task` is a goal that was handed in. domain: the environment -> text of domain.json.
    """
    require_length(FINETUNE, config.iterations)
    if isinstance(start, PopulationPolicy):
        with threads_in_force(config.machine), closing(_env(config, task)) as env:
            start = best_head(start, env, stream(config.seed, Stream.TASK_HEADS), config.task)
    tell_what_is_lost(config, start)
    with threads_in_force(config.machine), _workshop(config, start, task) as (env, learner):
        initial = None if start is None else policy_bytes(start)
        known = domain_of(env, config).to_json() if domain is None else domain(env)
        _regularise(learner, config, lambda: Domain.from_json(known))
        with RunDirectory.create(out, FINETUNE, config, known, initial) as run:
            job = Finetuning(run, learner, start)
            position = job.begin()
            drive(
                run, job, position, length=config.iterations, machine=config.machine, callbacks=callbacks, report=report
            )
    return run


def resume(
    path: Path,
    *,
    length: int | None = None,
    given: Any = None,
    callbacks: Sequence[Callback] = (),
    report: Report = lambda _: None,
) -> FinetuneRun:
    """Continue the run in `path` to its end, or to iteration `length`; the result equals that of a run never stopped.

    Everything is read and checked before anything on disk is changed. A goal of one's own is code, and no file decides
    what is run: its module must be trusted (runs/directory.py), or the task handed in again as `given`.
    """
    run: FinetuneRun = RunDirectory.open(path)
    config = run.config if length is None else dataclasses.replace(run.config, iterations=length)
    require_length(FINETUNE, config.iterations)
    start = own_start(run)
    with threads_in_force(config.machine), run.held(), _workshop(config, start, given) as (env, learner):
        _regularise(learner, config, lambda: load_domain(run, given))
        job = Finetuning(run, learner, start)
        position = restore(run, job)
        if position is not None and config.iterations < position.turn:
            wanted = config.iterations
            raise ConfigError(f"iterations = {wanted} is not possible: {path} already stands at {position.turn}")
        run.rewind(0 if position is None else position.turn)
        run = run.with_config(config)
        keep_domain(run, lambda: domain_of(env, config))
        position = job.begin() if position is None else position
        drive(run, job, position, length=config.iterations, machine=config.machine, callbacks=callbacks, report=report)
    return run


class Finetuning:
    """Phase 2 as a job: an iteration plays, measures what was played, and learns from it."""

    def __init__(self, run: FinetuneRun, learner: OnPolicy | OffPolicy, start: Any) -> None:
        self._run, self._config, self._learner, self._start = run, run.config, learner, start

    def begin(self) -> Position:
        """Where a new run stands: after what was played before the first iteration, into SAC's memory."""
        if not isinstance(self._learner, OffPolicy) or self._config.sac.warmup == 0:
            return Position(0, 0)
        seed = stream(self._config.seed, Stream.TASK_WARM_UP)
        with drawing_from(seed):
            samples = self._learner.warm_up(self._start, seed)
        self._learner.memory.store(self._run, 0, samples // self._config.lanes)
        return Position(0, samples, self._learner.memory.parts)

    def actor(self) -> Any:
        """The policy."""
        return self._learner.policy()

    def policy_bytes(self) -> bytes:
        """The policy as a file."""
        return policy_bytes(self._learner.policy())

    def state(self, turn: int) -> State:
        """Networks and moments."""
        return self._learner.state()

    def recall(self, position: Position, part: Callable[[int], Path]) -> None:
        """SAC's memory."""
        if isinstance(self._learner, OffPolicy):
            self._learner.memory.recall(position, position.samples // self._config.lanes, part)

    def is_enough(self, rows: Sequence[FinetuneRow]) -> bool:
        """Whether the last policies are all as good as the settings ask of a run to end early."""
        level, wanted = self._config.stop_return, self._config.stop_after
        if level is None or len(rows) < wanted:
            return False
        return all(row.average_return is not None and row.average_return >= level for row in rows[-wanted:])

    def turn(self, number: int, samples: int, *, last: bool) -> Turn[FinetuneRow]:
        """Play, measure, and learn from what was played. The row is about the policy that played."""
        config, learner = self._config, self._learner
        begun = time.perf_counter()
        with drawing_from(stream(config.seed, Stream.TASK_ITERATION, number)):
            learner.episodes()
            learner.collect(stream(config.seed, Stream.TASK_STARTS, number).generate_state(config.lanes).tolist())
            played = time.perf_counter()
            episodes = learner.episodes()
            if not last:
                learner.learn(number)
        learnt = None if last else round(time.perf_counter() - played, 4)
        measured = measures(episodes, by_goal=not config.own_reward)
        row = FinetuneRow(
            number,
            samples,
            *measured,
            sample_s=round(played - begun, 4),
            learn_s=learnt,
            state_entropy=learner.state_entropy,
        )
        if last:
            return Turn(row)
        if isinstance(learner, OffPolicy):
            learner.memory.store(self._run, number + 1, config.horizon)
            return Turn(row, config.steps, parts=learner.memory.parts)
        return Turn(row, config.steps)


def measures(episodes: list[Episode], *, by_goal: bool = True) -> tuple[float | None, float | None, float | None, int]:
    """Average return, success rate, steps to the goal, number of episodes (docs/method/finetune.md).

    by_goal: whether there is a goal; without one nothing is a success.
    """
    first = [e.success for e in episodes if e.first and by_goal]
    hits = [e.length for e in episodes if e.success and by_goal]
    return (
        float(np.mean([e.reward for e in episodes])) if episodes else None,
        float(np.mean(first)) if first else None,
        float(np.mean(hits)) if hits else None,
        len(episodes),
    )


@contextmanager
def _workshop(config: FinetuneConfig, start: Any, given: Any) -> Iterator[tuple[Any, OnPolicy | OffPolicy]]:
    """The task's environment, and the learner in it. given: the task, or what has its `env`, where it was handed in."""
    base = _env(config, given)
    kind = LEARNERS[config.algo]
    env = BatchedVecEnv(kind.view(base, config))
    try:
        state_dim = int(np.prod(base.single_observation_space.shape or ()))
        begin = start_policy(config, start, state_dim, env.action_space)
        with drawing_from(stream(config.seed, Stream.TASK_LEARNER)):
            learner = kind.make(env, config, begin, state_dim)
        yield base, learner
    finally:
        env.close()


def _regularise(learner: OnPolicy | OffPolicy, config: FinetuneConfig, domain: Callable[[], Domain]) -> None:
    """Give the learner the entropy reward that the settings ask for; `domain` is asked for its features then alone."""
    if isinstance(learner, OnPolicy) and config.entropy.entropy_weight > 0:
        known = domain()
        learner.regularise(EntropyTerm(config, known, known.state_dim))


def _env(config: FinetuneConfig, given: Any) -> EpisodesVectorEnv:
    return make_task(
        _task(config, given),
        config.lanes,
        horizon=config.horizon,
        threads=config.machine.threads,
        time_limit=config.machine.env_time_limit,
        unit_actions=config.unit_actions,
        kwargs=config.env_kwargs,
    )


def _task(config: FinetuneConfig, given: Any) -> Task:
    env = getattr(given, "env", None)
    if isinstance(given, Task):
        return given
    if config.own_reward and env is not None:
        return Task(env, None, config.horizon)
    return find_task(config.task, config.env, config.horizon)

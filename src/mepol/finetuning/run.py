"""Drive one fine-tuning: the only place here that builds environments, learners and run directories."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
import torch

from mepol.algorithm.policy import GaussianPolicy
from mepol.errors import CheckpointError, ConfigError, MepolWarning, RunError
from mepol.finetuning.checkpoint import load_state, state_bytes
from mepol.finetuning.config import FinetuneConfig
from mepol.finetuning.intrinsic.smm import SkillVectorEnv
from mepol.finetuning.learners import OffPolicy, OnPolicy, make_learner
from mepol.finetuning.store import FinetuneRow, FinetuneRun
from mepol.finetuning.tasks import Task, find_task, make_task
from mepol.runs.policies import load_policy, policy_bytes
from mepol.sb3.actors import check_fit
from mepol.sb3.adapter import BatchedVecEnv, Episode
from mepol.sb3.randomness import drawing_from


class Stream(IntEnum):
    """Independent random streams: each draw depends on (seed, stream, iteration) and on nothing else."""

    WEIGHTS = 0
    LEARNER = 1
    STARTS = 2
    ITERATION = 3
    WARM_UP = 4


def stream(seed: int, which: Stream, iteration: int = 0) -> np.random.SeedSequence:
    """The seed of one stream at one iteration; apart from those of an exploration with the same seed."""
    return np.random.SeedSequence(seed, spawn_key=(1000 + int(which), iteration))


@dataclass(frozen=True)
class Progress:
    """What a run reports after each policy."""

    row: FinetuneRow
    iterations: int


Report = Callable[[Progress], None]


def load_explorer(init: str) -> GaussianPolicy | None:
    """The policy of an exploration run, or of a policy file; None for `none`."""
    if init == "none":
        return None
    path = Path(init)
    return load_policy(path / "policy.safetensors" if path.is_dir() else path)


def finetune(config: FinetuneConfig, out: Path, report: Report = lambda _: None) -> FinetuneRun:
    """Learn the task of `config` into the new directory `out`; everything is checked before `out` is made."""
    explorer = load_explorer(config.init)
    with _workshop(config, explorer) as learner:
        run = FinetuneRun.create(out, config, policy_bytes(explorer) if explorer else None)
        with run.lock():
            samples = _warm_up(run, learner, explorer)
            _drive(run, learner, 0, samples, report)
    return run


def resume(
    path: Path, *, task: str, env: str = "", iterations: int | None = None, report: Report = lambda _: None
) -> FinetuneRun:
    """Continue the run in `path` to its end, or to `iterations`; the result equals that of a run never stopped.

    The task is named again, and must be the run's: a goal of one's own is code, and no file decides what is run.
    """
    run = FinetuneRun.open(path)
    config = run.config
    if task != config.task or (":" in task and env != config.env):
        raise ConfigError(f"{path} is a run of {config.task!r} in {config.env or 'its own domain'!r}: name that again")
    explorer = None if config.init == "none" else load_policy(run.explorer_path)
    with _workshop(config, explorer) as learner, run.lock():
        iteration, samples = _restore(run, learner, explorer)
        wanted = config.iterations if iterations is None else iterations
        if wanted < iteration:
            raise ConfigError(f"iterations = {wanted} is not possible: {path} already stands at {iteration}")
        run = run.with_iterations(wanted)
        _drive(run, learner, iteration, samples, report)
    return run


@contextmanager
def _workshop(config: FinetuneConfig, explorer: GaussianPolicy | None) -> Iterator[OnPolicy | OffPolicy]:
    """The learner in its environment, with the run's threads in force."""
    torch.set_num_threads(config.threads or os.cpu_count() or 1)
    task = find_task(config.task, config.env, config.horizon)
    env = _environment(task, config)
    try:
        base = env.env.env if isinstance(env.env, SkillVectorEnv) else env.env
        state_dim = int(np.prod(base.single_observation_space.shape or ()))
        action_dim = int(np.prod(env.action_space.shape or ()))
        if explorer is not None:
            check_fit(explorer, state_dim, action_dim, config.task)
        start = explorer or scratch_policy(config, state_dim, action_dim)
        with drawing_from(stream(config.seed, Stream.LEARNER)):
            learner = make_learner(env, config, start, state_dim)
        yield learner
    finally:
        env.close()


def _environment(task: Task, config: FinetuneConfig) -> BatchedVecEnv:
    env = make_task(task, config.lanes, horizon=config.horizon, threads=config.threads)
    return BatchedVecEnv(SkillVectorEnv(env, config.intrinsic.skills) if config.algo == "smm" else env)


def scratch_policy(config: FinetuneConfig, state_dim: int, action_dim: int) -> GaussianPolicy:
    """The random start: Xavier weights, no zero-mean regression, as in the authors' release."""
    policy = GaussianPolicy(state_dim, action_dim, config.hidden)
    policy.initialise(np.random.default_rng(stream(config.seed, Stream.WEIGHTS)), log_std=config.log_std)
    return policy


def _warm_up(run: FinetuneRun, learner: OnPolicy | OffPolicy, explorer: GaussianPolicy | None) -> int:
    """Steps spent before the first iteration; what SAC stored in them is written."""
    if isinstance(learner, OnPolicy) or run.config.sac.warmup == 0:
        return 0
    seed = stream(run.config.seed, Stream.WARM_UP)
    with drawing_from(seed):
        samples = learner.warm_up(explorer, seed)
    lanes = run.config.lanes
    run.save_segment(0, learner.segment(min(samples // lanes, learner.replay.buffer_size)), _kept(run.config))
    return samples


def _kept(config: FinetuneConfig) -> int:
    """Replay files that the memory may still hold: one more than fills it."""
    return config.sac.buffer // config.steps + 2


def _restore(run: FinetuneRun, learner: OnPolicy | OffPolicy, explorer: GaussianPolicy | None) -> tuple[int, int]:
    """The newest checkpoint that can be read, put into the learner; a run without any begins anew."""
    for path in run.checkpoints():
        try:
            iteration, samples = load_state(path, learner.state())
        except CheckpointError as fault:
            warnings.warn(f"{fault}; falling back to the checkpoint before", MepolWarning, stacklevel=3)
            continue
        run.rewind(iteration)
        if isinstance(learner, OffPolicy):
            learner.recall(run.segments(), samples // run.config.lanes)
        return iteration, samples
    if run.rows():
        raise RunError(f"{run.path} has no checkpoint that can be read; start again with mepol finetune")
    run.rewind(0)
    return 0, _warm_up(run, learner, explorer)


def _drive(run: FinetuneRun, learner: OnPolicy | OffPolicy, first: int, samples: int, report: Report) -> None:
    """Iteration after iteration to the end, or until it is solved; the last policy is measured too, uncounted."""
    config = run.config
    held, saved, saved_at = _held(learner, first, samples), -1, -np.inf
    try:
        for iteration in range(first, config.iterations + 1):
            if time.monotonic() - saved_at >= 60 * config.checkpoint_minutes:
                run.save_checkpoint(*held)
                saved, saved_at = iteration, time.monotonic()
            last = iteration == config.iterations or is_solved(run, iteration)
            with drawing_from(stream(config.seed, Stream.ITERATION, iteration)):
                row = _iterate(learner, config, iteration, samples, learn=not last)
            run.append(row)
            if not last:
                samples += config.steps
                if isinstance(learner, OffPolicy):
                    run.save_segment(iteration + 1, learner.segment(config.horizon), _kept(config))
                held = _held(learner, iteration + 1, samples)
            report(Progress(row, config.iterations))
            if last:
                break
    finally:  # however it ends: the state of the last whole iteration reaches the disk
        if held[0] != saved:
            run.save_checkpoint(*held)


def is_solved(run: FinetuneRun, iteration: int) -> bool:
    """Whether the policies just before `iteration` are all as good as the settings ask of a run to end early."""
    level, wanted = run.config.stop_return, run.config.stop_after
    if level is None or iteration < wanted:
        return False
    returns = [row.average_return for row in run.rows()[iteration - wanted : iteration]]
    return all(r is not None and r >= level for r in returns)


def _held(learner: OnPolicy | OffPolicy, iteration: int, samples: int) -> tuple[int, bytes, bytes | None]:
    policy = learner.policy()
    stored = policy_bytes(policy) if isinstance(policy, GaussianPolicy) else None
    return iteration, state_bytes(learner.state(), iteration, samples), stored


def _iterate(
    learner: OnPolicy | OffPolicy, config: FinetuneConfig, iteration: int, samples: int, *, learn: bool
) -> FinetuneRow:
    """Play, measure, and learn from what was played. The row is about the policy that played."""
    begun = time.perf_counter()
    learner.episodes()
    learner.collect(stream(config.seed, Stream.STARTS, iteration).generate_state(config.lanes).tolist())
    played = time.perf_counter()
    episodes = learner.episodes()
    if learn:
        learner.learn()
    return FinetuneRow(
        iteration,
        samples,
        *measures(episodes),
        sample_s=round(played - begun, 4),
        learn_s=round(time.perf_counter() - played, 4) if learn else None,
    )


def measures(episodes: list[Episode]) -> tuple[float | None, float | None, float | None, int]:
    """Average return, success rate, steps to the goal, number of episodes (docs/finetune.md)."""
    first = [e.success for e in episodes if e.first]
    hits = [e.length for e in episodes if e.success]
    return (
        float(np.mean([e.reward for e in episodes])) if episodes else None,
        float(np.mean(first)) if first else None,
        float(np.mean(hits)) if hits else None,
        len(episodes),
    )

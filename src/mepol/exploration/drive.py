"""Drive one exploration: the only place that builds environments, policies and run directories."""

from __future__ import annotations

import dataclasses
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mepol.algorithm import RULES, Batch, Epoch, GaussianPolicy, KnnLandscape, Watch, mepol
from mepol.envs.make import Domain, closing, env_of
from mepol.errors import CheckpointError, ConfigError, EnvironmentFault, MepolWarning, PolicyFileError, RunError
from mepol.evaluation import Evaluation, evaluate
from mepol.exploration.config import ExploreConfig
from mepol.neighbours import Neighbours, neighbours
from mepol.runs.checkpoint import Learner, Position, load_checkpoint, versions
from mepol.runs.directory import MetricsRow, Run
from mepol.runs.keeper import Keeper
from mepol.runs.policies import save_policy
from mepol.sampling.collect import Actor, collect


class Stream(IntEnum):
    """Independent random streams of a run: each draw depends on (seed, stream, epoch) and on nothing else."""

    WEIGHTS = 0
    ZERO_MEAN = 1
    BATCH = 2
    EVALUATION = 3
    FRESH = 4  # evaluations on request, apart from those of the run itself
    FILM = 5
    DENSITY = 6  # rollouts of the mixture of MaxEnt
    ORACLE = 7  # training of its policies
    CRITIC = 8  # initial weights of the rule `advantage`


def stream(seed: int, which: Stream, epoch: int = 0) -> np.random.SeedSequence:
    """The seed of one stream at one epoch."""
    return np.random.SeedSequence(seed, spawn_key=(int(which), epoch))


def make_policy(config: ExploreConfig, domain: Domain) -> GaussianPolicy:
    """The initial policy of a run: seeded weights, then a zero mean over the observation space."""
    policy = GaussianPolicy(domain.space.shape[0], domain.action_dim, config.policy.hidden)
    policy.initialise(np.random.default_rng(stream(config.seed, Stream.WEIGHTS)), log_std=config.policy.log_std)
    if config.policy.scale_inputs:
        shift, scale = input_scaling(domain, config.policy.input_range)
        policy.shift.copy_(torch.from_numpy(shift))
        policy.scale.copy_(torch.from_numpy(scale))
    if config.policy.mirror:
        policy.mirror()
    if config.policy.zero_mean_steps:
        rng = np.random.default_rng(stream(config.seed, Stream.ZERO_MEAN))
        policy.centre(domain.space, rng, steps=config.policy.zero_mean_steps)
    return policy


def make_learner(config: ExploreConfig, domain: Domain) -> Learner:
    """The initial policy and its ascent by the run's rule."""
    policy = make_policy(config, domain)
    rng = np.random.default_rng(stream(config.seed, Stream.CRITIC))
    rule = RULES[config.ascent.rule]
    return Learner(policy, rule.make(policy, config.ascent, config.critic, domain.space.shape[0], rng))


def input_scaling(domain: Domain, reach: float = 1.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(S,) shift and scale that bring each bounded coordinate to +-reach and leave the others as they are."""
    low, high = domain.space.low.astype(np.float64), domain.space.high.astype(np.float64)
    bounded = np.isfinite(high - low) & (high > low)
    return np.where(bounded, (low + high) / 2, 0.0), np.where(bounded, (high - low) / 2 / reach, 1.0)


@torch.no_grad()
def standardise_inputs(policy: GaussianPolicy, batch: Batch, domain: Domain, reach: float) -> None:
    """Bring the unbounded coordinates of a batch's states to mean 0 and spread `reach` at the network's input.

    One that never moves keeps its scale. A mirrored policy's mean is zero whatever it is shown: it acts as before.
    """
    states = batch.states[:, :-1][batch.visited()]  # (N, S)
    spread = states.std(axis=0)
    chosen = torch.from_numpy(~np.isfinite(domain.space.high - domain.space.low) & (spread > 0))
    policy.shift[chosen] = torch.from_numpy(states.mean(axis=0)).to(policy.shift)[chosen]
    policy.scale[chosen] = torch.from_numpy(spread / reach).to(policy.scale)[chosen]


def search_neighbours(batch: Batch, domain: Domain, config: ExploreConfig) -> Neighbours:
    """Neighbours of a batch's particles in the run's metric; volumes in raw units whatever the metric."""
    scaled = batch.particles(domain.features) / np.array(domain.widths)
    names = [domain.names[i] for i in domain.features]
    near = neighbours(scaled, config.ascent.k, eps=config.ascent.eps, workers=threads(config), names=names)
    return dataclasses.replace(near, log_volume=near.log_volume + np.log(domain.widths).sum())


def threads(config: ExploreConfig) -> int:
    """CPU threads that a run uses."""
    return config.threads or os.cpu_count() or 1


def evaluate_policy(
    actor: Actor, config: ExploreConfig, *, trajectories: int, seed: np.random.SeedSequence
) -> Evaluation:
    """Measure `actor` on fresh trajectories with the run's own horizon, features, k and grid."""
    with closing(env_of(config, trajectories), config.env_time_limit) as env:
        domain = Domain.of(env, config)
        check_fit(actor, domain, config)
        ascent = config.ascent
        return evaluate(
            actor,
            env,
            horizon=config.horizon,
            features=domain.features,
            k=ascent.k,
            eps=ascent.eps,
            grid=domain.grid,
            seed=seed,
            time_limit=config.env_time_limit,
        )


def check_fit(actor: Actor, domain: Domain, config: ExploreConfig) -> None:
    """PolicyFileError when `actor` is a policy of other widths than the environment has."""
    needed = (domain.space.shape[0], domain.action_dim)
    if isinstance(actor, GaussianPolicy) and (actor.widths[0], actor.widths[-1]) != needed:
        raise PolicyFileError(
            f"the policy maps {actor.widths[0]} state coordinates to {actor.widths[-1]} actions, "
            f"and {config.env} has {needed[0]} and {needed[1]}: it was made for another environment"
        )


@dataclass(frozen=True)
class Progress:
    """What a run reports after each policy."""

    row: MetricsRow
    epochs: int
    evaluation: Evaluation | None


Report = Callable[[Progress], None]


def explore(config: ExploreConfig, out: Path, report: Report = lambda _: None) -> Run:
    """Run the whole exploration of `config` into the new directory `out`; returns the finished run.

    Everything is checked before `out` is made. Whatever stops it, `resume` goes on from its last checkpoint.
    """
    with _workshop(config) as (env, domain):
        learner = make_learner(config, domain)
        run = Run.create(out, config)
        with run.lock():
            _drive(run, env, domain, learner, Position(0, 0), report)
    return run


def resume(path: Path, *, epochs: int | None = None, report: Report = lambda _: None) -> Run:
    """Continue the run in `path` to its end, or to `epochs`; the result equals an uninterrupted run's, bit for bit.

    A newest checkpoint that cannot be read is passed over for the one before, with a MepolWarning.
    """
    run = Run.open(path)
    with _workshop(run.config) as (env, domain), run.lock():
        learner = make_learner(run.config, domain)
        position = _restore(run, learner)
        wanted = run.config.epochs if epochs is None else epochs
        if wanted < position.epoch:
            raise ConfigError(f"epochs = {wanted} is not possible: {path} already stands at epoch {position.epoch}")
        run.rewind(position.epoch)
        run = run.with_epochs(wanted)
        _drive(run, env, domain, learner, position, report)
    return run


@contextmanager
def _workshop(config: ExploreConfig) -> Iterator[tuple[VectorEnv[Any, Any, Any], Domain]]:
    """The environment of a run and what it says of itself, with the run's threads in force."""
    torch.set_num_threads(threads(config))
    with closing(env_of(config, config.trajectories), config.env_time_limit) as env:
        yield env, Domain.of(env, config)


def _restore(run: Run, learner: Learner) -> Position:
    """The newest checkpoint that can be read, put into `learner`.

    A run that was killed before its first checkpoint stands at its start, which the seed alone fixes.
    """
    paths = run.checkpoints()
    for path in paths:
        try:
            position, wrote = load_checkpoint(path, learner)
        except CheckpointError as fault:
            warnings.warn(f"{fault}; falling back to the checkpoint before", MepolWarning, stacklevel=3)
            continue
        if changed := sorted(k for k, v in versions().items() if wrote.get(k) != v):
            text = f"{path} was written with another version of {', '.join(changed)}: digits may differ from here on"
            warnings.warn(text, MepolWarning, stacklevel=3)
        return position
    if paths or run.rows():
        raise RunError(f"{run.path} has no checkpoint that can be read; start again with mepol explore")
    return Position(0, 0)


def _drive(
    run: Run,
    env: VectorEnv[Any, Any, Any],
    domain: Domain,
    learner: Learner,
    position: Position,
    report: Report,
) -> None:
    """Epoch after epoch from `position` to the end, leaving rows, checkpoints and the policy on disk."""
    config, policy = run.config, learner.policy
    clock = Stopwatch()

    def sample(epoch: int) -> Batch:
        if env.single_observation_space != domain.space:
            raise EnvironmentFault(f"the environment changed its observation space to {env.single_observation_space}")
        if env.single_action_space.shape != (domain.action_dim,):
            raise EnvironmentFault(f"the environment changed its action space to {env.single_action_space}")
        seed = stream(config.seed, Stream.BATCH, epoch)
        with clock.time("sample"):
            batch = collect(policy, env, config.horizon, seed=seed, time_limit=config.env_time_limit)
        if epoch == 0 and config.policy.standardise:
            standardise_inputs(policy, batch, domain, config.policy.input_range)
        return batch

    def search(batch: Batch) -> KnnLandscape:
        with clock.time("knn"):
            return KnnLandscape(search_neighbours(batch, domain, config))

    updates = mepol(sample, search, learner.ascent.climb, first_epoch=position.epoch)
    before = run.rows()[-1:]
    watch = Watch(config.ascent, RULES[config.ascent.rule], before[0].entropy if before else None)
    if position.epoch == 0:
        save_policy(policy, run.initial_policy_path)
    with Keeper(run, learner, position) as keeper:
        for epoch in range(position.epoch, config.epochs + 1):
            row = MetricsRow(epoch, keeper.position.samples)
            evaluation = None
            if _is_due(epoch, config):  # before the update: a row describes the policy that the epoch starts from
                evaluation = evaluate_into(run, policy, epoch)
                row = with_evaluation(row, evaluation)
            if epoch < config.epochs:
                with clock.time("epoch"):
                    update = next(updates)
                watch.check(update)
                row = _with_update(row, update, clock, config)
                run.append_steps(update)
            run.append(row)
            if epoch < config.epochs:
                keeper.advance(update.particles)
            report(Progress(row, config.epochs, evaluation))
        run.sync_rows()


def _is_due(epoch: int, config: ExploreConfig) -> bool:
    every = config.evaluation.evaluate_every
    return epoch in (0, config.epochs) or (every > 0 and epoch % every == 0)


def evaluate_into(run: Run, policy: Actor, epoch: int) -> Evaluation:
    """Measure `policy` as a run does at `epoch`, and store its visits."""
    config = run.config
    seed = stream(config.seed, Stream.EVALUATION, epoch)
    evaluation = evaluate_policy(policy, config, trajectories=config.evaluation.evaluation_trajectories, seed=seed)
    if evaluation.visits is not None:
        run.save_visits(epoch, evaluation.visits)
    return evaluation


def with_evaluation(row: MetricsRow, evaluation: Evaluation) -> MetricsRow:
    """`row` with what an evaluation found."""
    return dataclasses.replace(
        row,
        index=evaluation.index,
        discrete_entropy=evaluation.discrete_entropy,
        pooled_entropy=evaluation.pooled_entropy,
        cells=evaluation.cells,
    )


def _with_update(row: MetricsRow, update: Epoch, clock: Stopwatch, config: ExploreConfig) -> MetricsRow:
    seconds = clock.take()
    return dataclasses.replace(
        row,
        entropy=update.entropy,
        kl=update.kl,
        steps=len(update.accepted),
        ess=update.ess,
        learning_rate=update.accepted[-1].learning_rate if update.accepted else config.ascent.learning_rate,
        sample_s=round(seconds["sample"], 4),
        knn_s=round(seconds["knn"], 4),
        optimise_s=round(seconds["epoch"] - seconds["sample"] - seconds["knn"], 4),
    )


class Stopwatch:
    """Seconds spent under each name since they were last taken."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Add the time of the block to `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start

    def take(self) -> dict[str, float]:
        """Hand over the seconds and start again from zero."""
        taken, self._seconds = self._seconds, {}
        return taken

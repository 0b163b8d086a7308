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

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv

from mepol.batch import Batch
from mepol.checkpoint import Position, checkpoint_bytes, load_checkpoint, versions
from mepol.config import ExploreConfig
from mepol.errors import (
    CheckpointError,
    CollapseError,
    ConfigError,
    EnvironmentFault,
    MepolWarning,
    PolicyFileError,
    RunError,
)
from mepol.evaluate import Evaluation, Grid, evaluate
from mepol.features import feature_names, select_features
from mepol.mepol import Epoch, make_optimiser, mepol
from mepol.neighbours import Neighbours, neighbours
from mepol.policy import GaussianPolicy, policy_bytes, save_policy
from mepol.sampling import Actor, check_action_space, collect
from mepol.store import MetricsRow, Run

LOW_ESS = 0.01  # share of the batch below which its weights count as collapsing


class Stream(IntEnum):
    """Independent random streams of a run: each draw depends on (seed, stream, epoch) and on nothing else."""

    WEIGHTS = 0
    ZERO_MEAN = 1
    BATCH = 2
    EVALUATION = 3


def stream(seed: int, which: Stream, epoch: int = 0) -> np.random.SeedSequence:
    """The seed of one stream at one epoch."""
    return np.random.SeedSequence(seed, spawn_key=(int(which), epoch))


class Unending(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Hides the end of episodes, so that a trajectory goes on through them."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, with `terminated` and `truncated` always false."""
        obs, reward, _, _, info = self.env.step(action)
        return obs, reward, False, False, info


def make_env(env_id: str, num_envs: int, *, ignore_termination: bool = True) -> VectorEnv[Any, Any, Any]:
    """`num_envs` copies of a registered environment, native where it has a vector entry point."""
    try:
        spec = gymnasium.spec(env_id)
        if spec.vector_entry_point is not None:
            return gymnasium.make_vec(env_id, num_envs, vectorization_mode="vector_entry_point")
        return gymnasium.make_vec(
            env_id,
            num_envs,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": AutoresetMode.NEXT_STEP},
            wrappers=[Unending] if ignore_termination else None,
        )
    except (gymnasium.error.Error, ImportError) as fault:
        raise EnvironmentFault(f"cannot make the environment {env_id!r}: {fault}") from fault


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
        action_space = check_action_space(env)
        space = env.single_observation_space
        if not isinstance(space, Box) or len(space.shape) != 1:
            raise EnvironmentFault(f"mepol needs a one-dimensional Box observation space, not {space}")
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
    """The grid of visits; None where the range is neither given nor bounded, or there is one coordinate only."""
    settings = config.evaluation
    if len(names) < 2 and settings.heatmap_axes == "0,1":
        return None
    axes = select_features(settings.heatmap_axes, names)
    if len(axes) != 2:
        raise ConfigError(f"heatmap_axes = {settings.heatmap_axes!r} must name two coordinates")
    at, given = list(axes), settings.heatmap_low is not None or settings.heatmap_high is not None
    low = settings.heatmap_low or tuple(space.low[at].astype(float).tolist())
    high = settings.heatmap_high or tuple(space.high[at].astype(float).tolist())
    if not given and not np.isfinite([*low, *high]).all():
        return None
    return Grid((axes[0], axes[1]), (names[axes[0]], names[axes[1]]), low, high, settings.heatmap_bins)


def make_policy(config: ExploreConfig, domain: Domain) -> GaussianPolicy:
    """The initial policy of a run: seeded weights, then a zero mean over the observation space."""
    policy = GaussianPolicy(domain.space.shape[0], domain.action_dim, config.policy.hidden)
    policy.initialise(np.random.default_rng(stream(config.seed, Stream.WEIGHTS)), log_std=config.policy.log_std)
    if config.policy.scale_inputs:
        low, high = domain.space.low.astype(np.float64), domain.space.high.astype(np.float64)
        bounded = np.isfinite(high - low) & (high > low)
        policy.shift.copy_(torch.from_numpy(np.where(bounded, (low + high) / 2, 0.0)))
        policy.scale.copy_(torch.from_numpy(np.where(bounded, (high - low) / 2, 1.0)))
    if config.policy.zero_mean_steps:
        rng = np.random.default_rng(stream(config.seed, Stream.ZERO_MEAN))
        policy.centre(domain.space, rng, steps=config.policy.zero_mean_steps)
    return policy


def search_neighbours(batch: Batch, domain: Domain, config: ExploreConfig) -> Neighbours:
    """Neighbours of a batch's particles in the run's metric; volumes in raw units whatever the metric."""
    scaled = batch.particles(domain.features) / np.array(domain.widths)
    near = neighbours(scaled, config.ascent.k, eps=config.ascent.eps, workers=threads(config))
    return dataclasses.replace(near, log_volume=near.log_volume + np.log(domain.widths).sum())


def threads(config: ExploreConfig) -> int:
    """CPU threads that a run uses."""
    return config.threads or os.cpu_count() or 1


def evaluate_policy(
    actor: Actor, config: ExploreConfig, *, trajectories: int, seed: np.random.SeedSequence
) -> Evaluation:
    """Measure `actor` on fresh trajectories with the run's own horizon, features, k and grid."""
    with closing(make_env(config.env, trajectories, ignore_termination=config.ignore_termination)) as env:
        domain = Domain.of(env, config)
        _check_fit(actor, domain, config)
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
        )


def _check_fit(actor: Actor, domain: Domain, config: ExploreConfig) -> None:
    needed = (domain.space.shape[0], domain.action_dim)
    if isinstance(actor, GaussianPolicy) and (actor.widths[0], actor.widths[-1]) != needed:
        raise PolicyFileError(
            f"the policy maps {actor.widths[0]} state coordinates to {actor.widths[-1]} actions, "
            f"and {config.env} has {needed[0]} and {needed[1]}: it was made for another environment"
        )


@contextmanager
def closing(env: VectorEnv[Any, Any, Any]) -> Iterator[VectorEnv[Any, Any, Any]]:
    """Close the environment at the end, whatever happens."""
    try:
        yield env
    finally:
        env.close()


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
        policy = make_policy(config, domain)
        run = Run.create(out, config)
        with run.lock():
            save_policy(policy, run.initial_policy_path)
            _drive(run, env, domain, policy, make_optimiser(policy, config.ascent), Position(0, 0), report)
    return run


def resume(path: Path, *, epochs: int | None = None, report: Report = lambda _: None) -> Run:
    """Continue the run in `path` to its end, or to `epochs`; the result equals an uninterrupted run's, bit for bit.

    A newest checkpoint that cannot be read is passed over for the one before, with a MepolWarning.
    """
    run = Run.open(path)
    with _workshop(run.config) as (env, domain), run.lock():
        policy = make_policy(run.config, domain)
        optimiser = make_optimiser(policy, run.config.ascent)
        position = _restore(run, policy, optimiser)
        wanted = run.config.epochs if epochs is None else epochs
        if wanted < position.epoch:
            raise ConfigError(f"epochs = {wanted} is not possible: {path} already stands at epoch {position.epoch}")
        run = run.with_epochs(wanted)
        run.rewind(position.epoch)
        _drive(run, env, domain, policy, optimiser, position, report)
    return run


@contextmanager
def _workshop(config: ExploreConfig) -> Iterator[tuple[VectorEnv[Any, Any, Any], Domain]]:
    """The environment of a run and what it says of itself, with the run's threads in force."""
    torch.set_num_threads(threads(config))
    with closing(make_env(config.env, config.trajectories, ignore_termination=config.ignore_termination)) as env:
        yield env, Domain.of(env, config)


def _restore(run: Run, policy: GaussianPolicy, optimiser: torch.optim.Optimizer) -> Position:
    for path in run.checkpoints():
        try:
            position, wrote = load_checkpoint(path, policy, optimiser)
        except CheckpointError as fault:
            warnings.warn(f"{fault}; falling back to the checkpoint before", MepolWarning, stacklevel=3)
            continue
        if changed := sorted(k for k, v in versions().items() if wrote.get(k) != v):
            text = f"{path} was written with another version of {', '.join(changed)}: digits may differ from here on"
            warnings.warn(text, MepolWarning, stacklevel=3)
        return position
    raise RunError(f"{run.path} has no checkpoint that can be read; start again with mepol explore")


def _drive(
    run: Run,
    env: VectorEnv[Any, Any, Any],
    domain: Domain,
    policy: GaussianPolicy,
    optimiser: torch.optim.Optimizer,
    position: Position,
    report: Report,
) -> None:
    """Epoch after epoch from `position` to the end, leaving rows, checkpoints and the policy on disk."""
    config = run.config
    clock = Stopwatch()

    def sample(epoch: int) -> Batch:
        if env.single_observation_space != domain.space:
            raise EnvironmentFault(f"the environment changed its observation space to {env.single_observation_space}")
        seed = stream(config.seed, Stream.BATCH, epoch)
        with clock.time("sample"):
            return collect(policy, env, config.horizon, seed=seed, time_limit=config.env_time_limit)

    def search(batch: Batch) -> Neighbours:
        with clock.time("knn"):
            return search_neighbours(batch, domain, config)

    updates = mepol(policy, optimiser, sample, search, config.ascent, first_epoch=position.epoch)
    watch = Watch(config)
    with Keeper(run, policy, optimiser, position) as keeper:
        for epoch in range(position.epoch, config.epochs + 1):
            row = MetricsRow(epoch, keeper.position.samples)
            evaluation = None
            if _is_due(epoch, config):  # before the update: a row describes the policy that the epoch starts from
                evaluation = _evaluate_into(run, policy, epoch)
                row = _with_evaluation(row, evaluation)
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


class Watch:
    """Speaks up when an epoch went wrong numerically: warns where the run can go on, stops it where it cannot."""

    def __init__(self, config: ExploreConfig) -> None:
        self._config = config.ascent
        self._last: float | None = None

    def check(self, update: Epoch) -> None:
        """Compare the epoch with the one before; raises CollapseError on a cliff."""
        if self._last is not None and update.entropy < self._last - self._config.max_entropy_drop:
            raise CollapseError(
                f"the entropy fell from {self._last:.3f} to {update.entropy:.3f} nats in epoch {update.epoch}, more "
                f"than max_entropy_drop = {self._config.max_entropy_drop:g}; lower learning_rate or kl_threshold"
            )
        self._last = update.entropy
        if not update.accepted:
            self._warn(
                f"epoch {update.epoch}: none of {len(update.steps)} steps stayed in the trust region; "
                "the policy is unchanged; lower learning_rate"
            )
        elif update.ess < LOW_ESS * update.particles:
            self._warn(
                f"epoch {update.epoch}: importance weights are collapsing, effective sample size "
                f"{update.ess:.0f} of {update.particles}; lower learning_rate or kl_threshold"
            )

    @staticmethod
    def _warn(text: str) -> None:
        warnings.warn(text, MepolWarning, stacklevel=4)


class Keeper:
    """Keeps the state of the last finished epoch, and sees to it that it reaches the disk.

    A checkpoint is written every few epochs or minutes, and when the block is left in whatever way: by its end,
    an error, Ctrl-C or a termination signal. An epoch that was under way leaves no trace in it.
    """

    def __init__(self, run: Run, policy: GaussianPolicy, optimiser: torch.optim.Optimizer, position: Position) -> None:
        self._run, self._policy, self._optimiser = run, policy, optimiser
        self.position = position
        self._write()

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._written:
            self._write()

    def advance(self, samples: int) -> None:
        """Note the end of an epoch that drew `samples`."""
        self.position = Position(self.position.epoch + 1, self.position.samples + samples)
        self._hold()
        store = self._run.config.checkpoints
        many = self.position.epoch - self._saved_epoch >= store.checkpoint_epochs
        if many or time.monotonic() - self._saved_at >= 60.0 * store.checkpoint_minutes:
            self._write()

    def _hold(self) -> None:
        self._state = checkpoint_bytes(self._policy, self._optimiser, self.position)
        self._policy_file = policy_bytes(self._policy)
        self._written = False

    def _write(self) -> None:
        if not hasattr(self, "_state"):
            self._hold()
        self._run.save_policy(self._policy_file)
        self._run.save_checkpoint(self.position.epoch, self._state)
        self._written, self._saved_epoch, self._saved_at = True, self.position.epoch, time.monotonic()


def _is_due(epoch: int, config: ExploreConfig) -> bool:
    every = config.evaluation.evaluate_every
    return epoch in (0, config.epochs) or (every > 0 and epoch % every == 0)


def _evaluate_into(run: Run, policy: GaussianPolicy, epoch: int) -> Evaluation:
    config = run.config
    seed = stream(config.seed, Stream.EVALUATION, epoch)
    evaluation = evaluate_policy(policy, config, trajectories=config.evaluation.evaluation_trajectories, seed=seed)
    if evaluation.visits is not None:
        run.save_visits(epoch, evaluation.visits)
    return evaluation


def _with_evaluation(row: MetricsRow, evaluation: Evaluation) -> MetricsRow:
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

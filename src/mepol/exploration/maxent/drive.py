"""MaxEnt into a run directory: one row a mixture, the mixture itself after each round, resumed from the last."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from mepol.algorithm.policy import GaussianPolicy
from mepol.envs.coordinates import select_features
from mepol.envs.make import Domain, closing, env_of
from mepol.errors import ConfigError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import (
    Progress,
    Report,
    Stream,
    evaluate_into,
    input_scaling,
    stream,
    threads,
    with_evaluation,
)
from mepol.exploration.maxent.maxent import Reward, maxent
from mepol.exploration.maxent.mixture import SavedMixture, load_mixture, mixture_bytes, mixture_weights
from mepol.exploration.maxent.oracle import batch_shape, train
from mepol.runs.directory import MetricsRow, Run
from mepol.sampling.actors import Mixture, UniformActor
from mepol.sampling.collect import collect
from mepol.settings import with_settings


def explore(config: ExploreConfig, out: Path, report: Report = lambda _: None) -> Run:
    """Grow the whole mixture of `config` in the new directory `out`; `resume` goes on after its last round."""
    start = _start(config)
    run = Run.create(out, config)
    with run.lock():
        _drive(run, start, report)
    return run


def resume(path: Path, *, rounds: int | None = None, report: Report = lambda _: None) -> Run:
    """Continue the run in `path` to its end, or to `rounds`; a round that was under way is begun again.

    The result equals an uninterrupted run's: what a round draws depends on the seed and its number alone.
    """
    run = Run.open(path)
    with run.lock():
        saved = load_mixture(run.policy_path) if run.policy_path.exists() else _start(run.config)
        done = len(saved.mixture.policies)
        wanted = run.config.maxent.mixture_size if rounds is None else rounds
        if wanted < done:
            raise ConfigError(f"epochs = {wanted} is not possible: {path} already has {done} policies")
        run.rewind(done)
        if wanted != run.config.maxent.mixture_size:
            run = run.with_config(with_settings(run.config, {"mixture_size": wanted}))
        _drive(run, saved, report)
    return run


def _start(config: ExploreConfig) -> SavedMixture:
    """Uniform actions alone; every fault of config and environment is found here, before anything is written."""
    if not config.ignore_termination:
        raise ConfigError("ignore_termination = False is not possible: MaxEnt rolls on past the end of episodes")
    with closing(env_of(config, 1), config.env_time_limit) as env:
        domain = Domain.of(env, config)
        select_features(config.maxent.density_features, domain.names)
        return SavedMixture(
            Mixture(UniformActor.of(env), (), mixture_weights(1, "uniform"), config.maxent.mixture_draw), 0
        )


def _drive(run: Run, saved: SavedMixture, report: Report) -> None:
    """Round after round, leaving a row and the mixture on disk after each."""
    config, rival = run.config, run.config.maxent
    torch.set_num_threads(threads(config))
    mixture, samples = saved.mixture, saved.samples
    with closing(env_of(config, 1), config.env_time_limit) as env:
        domain = Domain.of(env, config)
    size = domain.space.shape[0]
    scaled, reach = config.policy.scale_inputs, config.policy.input_range
    shift, scale = input_scaling(domain, reach) if scaled else (np.zeros(size), np.ones(size))
    features = select_features(rival.density_features, domain.names)
    seconds = {"roll": 0.0}

    def roll(r: int, current: Mixture) -> NDArray[np.float64]:
        began = time.perf_counter()
        seed = stream(config.seed, Stream.DENSITY, r)
        with closing(env_of(config, rival.density_trajectories), config.env_time_limit) as env:
            batch = collect(current, env, rival.density_horizon, seed=seed, time_limit=config.env_time_limit)
        seconds["roll"] = time.perf_counter() - began
        return batch.particles(tuple(range(size)))

    def learn(r: int, reward: Reward) -> tuple[GaussianPolicy, int]:
        with closing(env_of(config, batch_shape(config)[0]), config.env_time_limit) as env:
            return train(env, reward, config, stream(config.seed, Stream.ORACLE, r), shift=shift, scale=scale)

    def thinning(r: int) -> np.random.SeedSequence:
        return stream(config.seed, Stream.DENSITY, r).spawn(3)[2]  # the first two are the sampler's

    rounds = maxent(mixture, roll, learn, rival, features=features, seed=thinning)
    for r in range(len(mixture.policies), rival.mixture_size + 1):
        run.save_policy(mixture_bytes(mixture, samples))
        row, evaluation = MetricsRow(r, samples), None
        if config.evaluation.evaluate_every or r in (0, rival.mixture_size):  # rounds are long: each is measured
            evaluation = evaluate_into(run, mixture, r)
            row = with_evaluation(row, evaluation)
        if r < rival.mixture_size:
            began = time.perf_counter()
            step = next(rounds)
            rest = time.perf_counter() - began - seconds["roll"]
            row = dataclasses.replace(row, sample_s=round(seconds["roll"], 4), optimise_s=round(rest, 4))
            mixture, samples = step.mixture, samples + step.samples
        run.append(row)
        run.sync_rows()
        report(Progress(row, rival.mixture_size, evaluation))

"""Every explorer under one roof: start it, resume it, and load what acts; `config.explorer` says which."""

from __future__ import annotations

from pathlib import Path

from mepol.algorithm.policy import GaussianPolicy
from mepol.envs.make import closing
from mepol.errors import ConfigError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import Progress, Report, evaluate_into, make_policy, with_evaluation
from mepol.exploration.drive import explore as explore_mepol
from mepol.exploration.drive import resume as resume_mepol
from mepol.exploration.environment import domain_of, env_of
from mepol.runs.directory import MetricsRow, Run
from mepol.runs.policies import policy_bytes, save_policy
from mepol.sampling.actors import UniformActor
from mepol.sampling.collect import Actor


def explore(config: ExploreConfig, out: Path, report: Report = lambda _: None) -> Run:
    """Run the explorer of `config` into the new directory `out`; returns the finished run."""
    if config.explorer == "mepol":
        return explore_mepol(config, out, report)
    if config.explorer == "maxent":
        from mepol.exploration.maxent import drive  # its dependencies are an extra

        return drive.explore(config, out, report)
    actor = _untrained(config)
    run = Run.create(out, config)
    return _measure(run, actor, report)


def resume(path: Path, *, epochs: int | None = None, report: Report = lambda _: None) -> Run:
    """Continue the run in `path` to its end, or to `epochs` (rounds, for MaxEnt)."""
    run = Run.open(path)
    if run.config.explorer == "mepol":
        return resume_mepol(path, epochs=epochs, report=report)
    if run.config.explorer == "maxent":
        from mepol.exploration.maxent import drive

        return drive.resume(path, rounds=epochs, report=report)
    if epochs:
        raise ConfigError(f"epochs = {epochs} is not possible: {run.config.explorer} exploration does not learn")
    if is_finished(run):
        return run
    return _measure(run, _untrained(run.config), report)


def load_actor(run: Run) -> Actor:
    """What acts in a run: its newest policy, its mixture, or uniform actions."""
    if run.config.explorer == "uniform":
        return _untrained(run.config)
    if run.config.explorer == "maxent":
        from mepol.exploration.maxent.mixture import load_mixture

        return load_mixture(run.policy_path).mixture
    return run.load_policy()


def is_finished(run: Run) -> bool:
    """Whether the last policy that the config asks for has been reached and measured."""
    rows = run.rows()
    return bool(rows) and rows[-1].epoch == run.config.length and rows[-1].index is not None


def _untrained(config: ExploreConfig) -> Actor:
    """The zero-mean Gaussian that MEPOL starts from (the paper's "random"), or uniform actions."""
    with closing(env_of(config, 1), config.env_time_limit) as env:
        if config.explorer == "uniform":
            return UniformActor.of(env)
        return make_policy(config, domain_of(env, config))


def _measure(run: Run, actor: Actor, report: Report) -> Run:
    """The one row of a run that learns nothing."""
    with run.lock():
        run.rewind(0)
        if isinstance(actor, GaussianPolicy):
            save_policy(actor, run.initial_policy_path)
            run.save_policy(policy_bytes(actor))
        evaluation = evaluate_into(run, actor, 0)
        row = with_evaluation(MetricsRow(0, 0), evaluation)
        run.append(row)
        run.sync_rows()
    report(Progress(row, 0, evaluation))
    return run

"""What a fine-tuning leaves in its table, and the entry that makes its run directories known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mepol.algorithm.config import AscentConfig
from mepol.envs.domain import Domain
from mepol.envs.make import Environments
from mepol.evaluation.assess import Protocol
from mepol.finetuning.config import FinetuneConfig
from mepol.finetuning.tasks import find_task, place_of
from mepol.runs.machine import as_before
from mepol.runs.phases import Phase, register
from mepol.runs.tables import Table


@dataclass(frozen=True, slots=True)
class FinetuneRow:
    """One policy; None is written as an empty cell. Formulas are in docs/method/finetune.md."""

    iteration: int
    samples: int  # environment steps spent to reach this policy
    average_return: float | None = None
    success_rate: float | None = None
    steps_to_goal: float | None = None
    episodes: int | None = None
    sample_s: float | None = None
    learn_s: float | None = None
    state_entropy: float | None = None  # nats, where it is rewarded


def environments_of(config: FinetuneConfig, given: Any = None) -> Environments:
    """What makes the environments that a task takes place in: its starts, and neither its goal nor its ends."""
    place = getattr(given, "env", None) or config.env or place_of(find_task(config.task))
    machine = config.machine
    limits = {"time_limit": machine.env_time_limit, "threads": machine.threads}
    return Environments(place, kwargs=config.env_kwargs, unit_actions=config.unit_actions, **limits)


def domain_of(env: Any, config: FinetuneConfig) -> Domain:
    """What is known of such an environment where nobody has said what to measure: all coordinates."""
    return Domain.of(env, name=config.env or config.task)


def protocol_of(config: FinetuneConfig) -> Protocol:
    """How the coverage of a policy is measured on request: with the k and eps of the exploration before it."""
    machine, usual = config.machine, AscentConfig()
    return Protocol(
        horizon=config.horizon,
        k=usual.k if config.k is None else config.k,
        eps=usual.eps if config.eps is None else config.eps,
        workers=machine.cores,
        time_limit=machine.env_time_limit,
    )


def _resume(path: Path, **options: Any) -> Any:
    with as_before():
        from mepol.finetuning.drive import resume  # which writes these rows, and needs Stable-Baselines3

    return resume(path, **options)


FINETUNE: Phase[FinetuneConfig, FinetuneRow] = register(
    Phase(
        name="finetune",
        turn="iteration",
        config=FinetuneConfig,
        metrics=Table("metrics.csv", FinetuneRow),
        score="average_return",
        learnt="learn_s",
        names=lambda config: (config.env,),
        goals=lambda config: (config.task,),
        length=lambda config, given=None: config.iterations,
        environments=environments_of,
        domain=domain_of,
        protocol=protocol_of,
        resume=_resume,
        lengths=("iterations",),
    )
)

"""`mepol finetune`: its arguments and what it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from mepol.commands.terminal import Tell, counting, stdout
from mepol.errors import ConfigError
from mepol.finetuning.config import FinetuneConfig
from mepol.finetuning.presets import default_config
from mepol.finetuning.store import FinetuneRow, FinetuneRun
from mepol.finetuning.tasks import TASKS

if TYPE_CHECKING:
    from mepol.finetuning.run import Progress

USAGE = """\
mepol finetune TASK [--init RUN|none] [--algo trpo|ppo|sac|smm|icm|pseudocount] [--seed S] [--iterations I] [--out DIR]
mepol finetune TASK --resume DIR [--iterations I]
mepol finetune my_module:goal --env PRESET|ENV_ID ...
"""


@dataclass(frozen=True)
class FinetuneArguments:
    """Learn a sparse task, from an exploration policy or from scratch."""

    config: Annotated[FinetuneConfig, tyro.conf.arg(name="")]
    out: Path | None = None
    """New directory for the run; by default runs/TASK-ALGO-INIT-seed-S."""
    resume: Path | None = None
    """Continue the run in this directory instead; of the settings only --iterations is read."""


def command(arguments: list[str]) -> None:
    """Parse, learn, and show how it goes."""
    if not arguments or arguments[0].startswith("-"):
        if arguments and arguments[0] in ("-h", "--help"):
            stdout.print(f"{USAGE}\ntasks: {', '.join(TASKS)}\n`mepol finetune {next(iter(TASKS))} --help`: settings")
            return
        raise ConfigError(f"finetune needs a task first; tasks: {', '.join(TASKS)}, or a goal module:function")
    task, (env, rest) = arguments[0], _take(arguments[1:], "--env")
    if env and ":" not in task:
        raise ConfigError(f"the task {task!r} has its own environment: leave --env out")
    config = default_config(task, env)
    parsed = tyro.cli(FinetuneArguments, prog=f"mepol finetune {task}", args=rest, default=FinetuneArguments(config))
    from mepol.finetuning.run import finetune, resume  # needs Stable-Baselines3: --help does not

    if parsed.resume is not None:
        given = any(word.split("=")[0] == "--iterations" for word in rest)
        length = parsed.config.iterations if given else FinetuneRun.open(parsed.resume).config.iterations
        with counting("iteration", length) as tell:
            report = _teller(tell)
            run = resume(parsed.resume, task=task, env=config.env, iterations=length, report=report)
    else:
        config = parsed.config
        start = "scratch" if config.init == "none" else "explorer"
        name = f"{task.replace(':', '-')}-{config.algo}-{start}-seed-{config.seed}"
        stdout.print(f"{task} with {config.algo}: {config.iterations} iterations of {config.lanes} x {config.horizon}")
        with counting("iteration", config.iterations) as tell:
            run = finetune(config, parsed.out or Path("runs") / name, _teller(tell))
    first, last = run.rows()[0], run.rows()[-1]
    stdout.print(
        f"average return {_number(first.average_return)} -> {_number(last.average_return)}, "
        f"success rate {_number(first.success_rate)} -> {_number(last.success_rate)}, {last.samples} samples"
    )
    stdout.print(f"run directory {run.path}")


def _teller(tell: Tell) -> Callable[[Progress], None]:
    """Every tenth iteration stays on the screen."""
    return lambda p: tell(p.row.iteration, p.iterations, _text(p.row), p.row.iteration % 10 == 0)


def _text(row: FinetuneRow) -> str:
    steps = "" if row.steps_to_goal is None else f"  steps to goal {row.steps_to_goal:6.1f}"
    return f"return {_number(row.average_return)}  success {_number(row.success_rate)}{steps}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _take(arguments: list[str], flag: str) -> tuple[str, list[str]]:
    """The value of `flag`, and the arguments without it."""
    for i, word in enumerate(arguments):
        if word == flag and i + 1 < len(arguments):
            return arguments[i + 1], arguments[:i] + arguments[i + 2 :]
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}="), arguments[:i] + arguments[i + 1 :]
    return "", arguments

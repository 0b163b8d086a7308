"""`mepol finetune`: its arguments and what it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import gymnasium
import tyro

from mepol.commands.help import all_settings, first_screen
from mepol.commands.terminal import Tell, counting, parse_rest, parse_some, resumable, stdout
from mepol.errors import ConfigError
from mepol.exploration.presets import PRESETS
from mepol.finetuning.config import Algo, FinetuneConfig
from mepol.finetuning.presets import default_config
from mepol.finetuning.store import FinetuneRow, FinetuneRun
from mepol.finetuning.tasks import TASKS
from mepol.settings import Described, describe, with_settings

if TYPE_CHECKING:
    from mepol.finetuning.run import Progress

USAGE = """\
mepol finetune TASK [--init RUN|none] [--algo trpo|ppo|sac|smm|icm|pseudocount] [--seed S] [--iterations I] [--out DIR]
mepol finetune TASK --resume DIR [--iterations I]
mepol finetune my_module:goal --env PRESET|ENV_ID ...
"""
WHAT = "Learn a sparse task, from an exploration policy or from scratch."
COMMON = ("init", "algo", "seed", "iterations", "stop_return", "stop_after", "horizon", "hidden", "log_std")
"""What the first screen of --help shows, besides the learner's first settings and the command's."""
FIRST = {
    "trpo": ("trpo.steps", "trpo.kl", "trpo.discount", "trpo.gae_lambda"),
    "ppo": ("ppo.steps", "ppo.learning_rate", "ppo.clip", "ppo.target_kl"),
    "sac": ("sac.steps", "sac.updates", "sac.learning_rate", "sac.warmup"),
}
GROUPS = {
    "command": "the command",
    "run": "the run",
    "trpo": "TRPO",
    "ppo": "PPO",
    "sac": "SAC, which smm, icm and pseudocount run on too",
    "intrinsic": "the intrinsic rewards of smm, icm and pseudocount",
    "machine": "the machine (changes no number)",
}


@dataclass(frozen=True)
class Choices:
    """What decides how the other arguments are read."""

    env: str = ""
    """Exploration preset or Gymnasium id of the domain, for a goal of one's own."""
    algo: Algo = "trpo"
    """Who learns."""
    iterations: int | None = None
    """Length of the run; by default the task's, or the one that a resumed run was started with."""
    resume: Path | None = None
    """Continue the run in this directory instead; of the settings only --iterations is read."""
    help: Annotated[bool, tyro.conf.arg(aliases=["-h"])] = False
    """The settings that people use."""
    help_all: bool = False
    """Every setting."""


@dataclass(frozen=True)
class FinetuneArguments:
    """Learn a sparse task, from an exploration policy or from scratch."""

    config: Annotated[FinetuneConfig, tyro.conf.arg(name="")]
    out: Path | None = None
    """New directory for the run; by default runs/TASK-ALGO-INIT-seed-S."""


def command(arguments: list[str]) -> None:
    """Parse, learn, and show how it goes."""
    if not arguments or arguments[0].startswith("-"):
        if arguments and arguments[0] in ("-h", "--help", "--help-all"):
            stdout.print(f"{USAGE}\ntasks: {', '.join(TASKS)}\n`mepol finetune {next(iter(TASKS))} --help`: settings")
            return
        raise ConfigError(f"finetune needs a task first; tasks: {', '.join(TASKS)}, or a goal module:function")
    task, prog = arguments[0], f"mepol finetune {arguments[0]}"
    choices, rest = parse_some(Choices, arguments[1:], prog)
    config = with_settings(_default(task, choices.env), {"algo": choices.algo})
    if choices.help or choices.help_all:
        stdout.print(_help(f"{prog} [--flag VALUE ...]", config, everything=choices.help_all))
        return
    if choices.iterations is not None:
        config = with_settings(config, {"iterations": choices.iterations})
    parsed = parse_rest(FinetuneArguments, rest, prog, FinetuneArguments(config))
    run = _start(parsed.config, parsed.out) if choices.resume is None else _resume(parsed.config, choices)
    first, last = run.rows()[0], run.rows()[-1]
    stdout.print(
        f"average return {_number(first.average_return)} -> {_number(last.average_return)}, "
        f"success rate {_number(first.success_rate)} -> {_number(last.success_rate)}, {last.samples} samples"
    )
    stdout.print(f"run directory {run.path}")


def _default(task: str, env: str) -> FinetuneConfig:
    """What a task starts from: the paper's settings, or for a goal of one's own those of its domain's preset."""
    if env and ":" not in task:
        raise ConfigError(f"the task {task!r} has its own environment: leave --env out")
    if env in PRESETS:
        explored = PRESETS[env].config
        policy = explored.policy
        return default_config(
            task, explored.env, horizon=explored.horizon, hidden=policy.hidden, log_std=policy.log_std
        )
    if env and env not in gymnasium.registry:
        raise ConfigError(f"no exploration preset or environment called {env!r}; presets: {', '.join(PRESETS)}")
    return default_config(task, env)


def _start(config: FinetuneConfig, out: Path | None) -> FinetuneRun:
    from mepol.finetuning.run import finetune  # needs Stable-Baselines3: --help does not

    start = "scratch" if config.init == "none" else "explorer"
    path = out or Path("runs") / f"{config.task.replace(':', '-')}-{config.algo}-{start}-seed-{config.seed}"
    lanes = f"{config.iterations} iterations of {config.lanes} x {config.horizon}"
    stdout.print(f"{config.task} with {config.algo}: {lanes}")
    with resumable(path, _again(config, path)), counting("iteration", config.iterations) as tell:
        return finetune(config, path, _teller(tell))


def _resume(config: FinetuneConfig, choices: Choices) -> FinetuneRun:
    from mepol.finetuning.run import resume

    path = choices.resume
    assert path is not None
    given = choices.iterations
    length = FinetuneRun.open(path).config.iterations if given is None else given
    with resumable(path, _again(config, path)), counting("iteration", length) as tell:
        return resume(path, task=config.task, env=config.env, iterations=length, report=_teller(tell))


def _again(config: FinetuneConfig, path: Path) -> str:
    env = f" --env {config.env}" if config.env else ""
    return f"mepol finetune {config.task}{env} --resume {path}"


def _help(usage: str, config: FinetuneConfig, *, everything: bool) -> str:
    out = "New directory for the run; by default runs/TASK-ALGO-INIT-seed-S."
    resumed = "Continue the run in this directory instead; of the settings only --iterations is read."
    here = [Described("out", "path", "", "", out, "command"), Described("resume", "path", "", "", resumed, "command")]
    rows = [*here, *(row for row in describe(config) if row.name not in ("task", "env"))]
    names = (*COMMON, *FIRST[config.section], "threads", "out", "resume")
    return all_settings(usage, WHAT, rows, GROUPS) if everything else first_screen(usage, WHAT, rows, names)


def _teller(tell: Tell) -> Callable[[Progress], None]:
    """Every tenth iteration stays on the screen."""
    return lambda p: tell(p.row.iteration, p.iterations, _text(p.row), p.row.iteration % 10 == 0)


def _text(row: FinetuneRow) -> str:
    steps = "" if row.steps_to_goal is None else f"  steps to goal {row.steps_to_goal:6.1f}"
    return f"return {_number(row.average_return)}  success {_number(row.success_rate)}{steps}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"

"""`mepol finetune`: its arguments and what it shows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import tyro

from mepol.commands.help import all_settings, first_screen
from mepol.commands.terminal import parse_rest, parse_some, resumable
from mepol.commands.watch import LogArguments
from mepol.console.progress import telling
from mepol.console.screen import stdout
from mepol.console.summary import print_summary
from mepol.errors import ConfigError
from mepol.exploration.presets import PRESETS
from mepol.finetuning.config import Algo, FinetuneConfig
from mepol.finetuning.presets import default_config
from mepol.finetuning.tasks import TASKS, find_task
from mepol.runs.directory import RunDirectory
from mepol.runs.text import file_name
from mepol.settings import Described, describe, with_settings

USAGE = """\
mepol finetune TASK [--init RUN|none] [--algo trpo|ppo|sac|smm|icm|pseudocount] [--seed S] [--iterations I] [--out DIR]
mepol finetune TASK --resume DIR [--iterations I]
mepol finetune my_module:goal --env PRESET|ENV_ID ...
"""
WHAT = "Learn a sparse task, from an exploration policy or from scratch."
COMMON = ("init", "which", "algo", "seed", "iterations", "stop_return", "stop_after", "horizon", "hidden", "log_std")
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
    watch: Annotated[LogArguments, tyro.conf.arg(name="")] = field(default_factory=LogArguments)


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
    print_summary(_start(parsed) if choices.resume is None else _resume(parsed, choices))


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


def _start(parsed: FinetuneArguments) -> RunDirectory[Any, Any]:
    from mepol.api import begin_finetuning  # needs Stable-Baselines3: --help does not

    config = parsed.config
    path = parsed.out or Path("runs") / default_name(config)
    lanes = f"{config.iterations} iterations of {config.lanes} x {config.horizon}"
    stdout.print(f"{config.task} with {config.algo}: {lanes}")
    with resumable(path, f"mepol resume {path}"), telling("iteration", config.iterations) as report:
        return begin_finetuning(config, path, callbacks=parsed.watch.callbacks(), report=report)


def default_name(config: FinetuneConfig) -> str:
    """Of a run's directory: task, learner, what it starts from, seed."""
    start = "scratch" if config.init == "none" else f"from-{Path(config.init).stem}"
    return file_name(f"{config.task}-{config.algo}-{start}") + f"-seed-{config.seed}"


def _resume(parsed: FinetuneArguments, choices: Choices) -> RunDirectory[Any, Any]:
    """As `mepol resume`, with the task named again: then a goal of one's own needs no further trust."""
    from mepol.finetuning.drive import resume

    config, path = parsed.config, choices.resume
    assert path is not None
    task = find_task(config.task, config.env, config.horizon)
    there = RunDirectory.open(path).config
    if (there.task, there.env) != (config.task, config.env):
        raise ConfigError(f"{path} is a run of {there.task!r} in {there.env or 'its own domain'!r}: name that again")
    length = choices.iterations
    total = there.iterations if length is None else length
    with resumable(path, f"mepol resume {path}"), telling("iteration", total) as report:
        return resume(path, length=length, given=task, callbacks=parsed.watch.callbacks(), report=report)


def _help(usage: str, config: FinetuneConfig, *, everything: bool) -> str:
    rows = flags(config)
    names = (*COMMON, *FIRST[config.section], "log", "threads", "out", "resume")
    return all_settings(usage, WHAT, rows, GROUPS) if everything else first_screen(usage, WHAT, rows, names)


def flags(config: FinetuneConfig) -> list[Described]:
    """Everything that can be typed after the task, with the settings of `config`."""
    out = "New directory for the run; by default runs/TASK-ALGO-INIT-seed-S."
    resumed = "Continue the run in this directory instead; of the settings only --iterations is read."
    here = [Described("out", "path", "", "", out, "command"), Described("resume", "path", "", "", resumed, "command")]
    here += [dataclasses.replace(row, group="command") for row in describe(LogArguments)]
    return [*here, *(row for row in describe(config) if row.name not in ("task", "env"))]

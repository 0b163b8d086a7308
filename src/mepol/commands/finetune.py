"""`mepol finetune`: its arguments and what it shows."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from mepol.commands.help import all_settings, first_screen
from mepol.commands.terminal import assignment, parse_rest, parse_some, resumable
from mepol.commands.watch import LogArguments
from mepol.console.progress import telling
from mepol.console.screen import stdout
from mepol.console.summary import print_summary
from mepol.envs.make import limit_of
from mepol.envs.names import advice, is_known
from mepol.errors import ConfigError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.presets import PRESETS
from mepol.finetuning.config import Algo, FinetuneConfig
from mepol.finetuning.presets import default_config
from mepol.finetuning.start import explorer_name
from mepol.finetuning.tasks import DEFAULT_HORIZON, TASKS, find_task, is_environment
from mepol.runs.directory import RunDirectory
from mepol.runs.start import SCRATCH
from mepol.runs.text import file_name
from mepol.runs.zoo import run_place
from mepol.settings import Described, describe, with_settings

USAGE = """\
mepol finetune TASK [--init RUN|none] [--algo trpo|ppo|sac|smm|icm|pseudocount] [--seed S] [--iterations I] [--out DIR]
mepol finetune TASK --entropy-weight BETA [--entropy-kind K] [--entropy-decay RATE]      trpo and ppo
mepol finetune TASK --resume DIR [--iterations I]
mepol finetune my_module:goal --env PRESET|ENV_ID ...
mepol finetune ENV_ID ...                                       the environment's own reward
"""
WHAT = "Learn a task, from an exploration policy or from scratch."
COMMON = ("init", "which", "algo", "seed", "iterations", "stop_return", "stop_after", "horizon", "hidden", "log_std")
"""What the first screen of --help shows, besides the learner's first settings and the command's."""
FIRST = {
    "trpo": ("trpo.steps", "trpo.kl", "trpo.discount", "trpo.gae_lambda", "entropy_weight"),
    "ppo": ("ppo.steps", "ppo.learning_rate", "ppo.clip", "ppo.target_kl", "entropy_weight"),
    "sac": ("sac.steps", "sac.updates", "sac.learning_rate", "sac.warmup"),
}
GROUPS = {
    "command": "the command",
    "run": "the run",
    "entropy": "the entropy of the visited states, rewarded beside the task (trpo and ppo)",
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
    init: str = SCRATCH
    """Exploration run or policy file to start from."""
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
    """Learn a task, from an exploration policy or from scratch."""

    config: Annotated[FinetuneConfig, tyro.conf.arg(name="")]
    out: Path | None = None
    """New directory for the run; by default runs/TASK-ALGO-INIT-seed-S, numbered where that is taken."""
    env_arg: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An argument of the environment's construction, KEY=VALUE with a TOML value; may be given several times."""
    watch: Annotated[LogArguments, tyro.conf.arg(name="")] = field(default_factory=LogArguments)


def command(arguments: list[str]) -> None:
    """Parse, learn, and show how it goes."""
    if not arguments or arguments[0].startswith("-"):
        if arguments and arguments[0] in ("-h", "--help", "--help-all"):
            stdout.print(f"{USAGE}\ntasks: {', '.join(TASKS)}\n`mepol finetune {next(iter(TASKS))} --help`: settings")
            return
        others = "a goal module:function, or an environment whose own reward is meant"
        raise ConfigError(f"finetune needs a task first; tasks: {', '.join(TASKS)}, {others}")
    task, prog = arguments[0], f"mepol finetune {arguments[0]}"
    choices, rest = parse_some(Choices, arguments[1:], prog)
    config, like = _default(task, choices.env, choices.init)
    config = with_settings(config, {"algo": choices.algo, "init": choices.init})
    if choices.help or choices.help_all:
        stdout.print(_help(f"{prog} [--flag VALUE ...]", config, everything=choices.help_all))
        return
    if choices.iterations is not None:
        config = with_settings(config, {"iterations": choices.iterations})
    parsed = parse_rest(FinetuneArguments, rest, prog, FinetuneArguments(config))
    print_summary(_start(parsed, like) if choices.resume is None else _resume(parsed, choices))


def _default(task: str, env: str, init: str) -> tuple[FinetuneConfig, ExploreConfig | None]:
    """What a task starts from, and the exploration that it is measured like where that is known.

    The paper's settings; for a goal of one's own those of its domain's preset; for an environment's own reward episodes
    as long as its own, or as the trajectories of the exploration in `init`.
    """
    if env and ":" not in task:
        raise ConfigError(f"the task {task!r} has its own environment: leave --env out")
    if env in PRESETS:
        like = PRESETS[env].config
        policy = like.policy
        config = default_config(task, like.env, horizon=like.horizon, hidden=policy.hidden, log_std=policy.log_std)
        return config, like
    if env and not is_known(env):
        raise ConfigError(f"no exploration preset or environment is called {env!r}; {advice(env, PRESETS)}")
    if not env and (task in PRESETS or is_environment(task)):
        place = PRESETS[task].config.env if task in PRESETS else task
        explored = RunDirectory.open(init).config.horizon if (run_place(init) / "config.json").is_file() else None
        return default_config(place, place, horizon=limit_of(place) or explored or DEFAULT_HORIZON), None
    return default_config(task, env), None


def _start(parsed: FinetuneArguments, like: ExploreConfig | None) -> RunDirectory[Any, Any]:
    from mepol.api import begin_finetuning  # needs Stable-Baselines3: --help does not

    given = dict(map(assignment, parsed.env_arg))
    config = with_settings(parsed.config, {"env_kwargs": given}) if given else parsed.config
    path = parsed.out or free_place(Path("runs") / default_name(config))
    lanes = f"{config.iterations} iterations of {config.lanes} x {config.horizon}"
    stdout.print(f"{config.task} with {config.algo}: {lanes}")
    with resumable(path, f"mepol resume {path}"), telling("iteration", config.iterations) as report:
        return begin_finetuning(config, path, like=like, callbacks=parsed.watch.callbacks(), report=report)


def default_name(config: FinetuneConfig) -> str:
    """Of a run's directory: task, learner, what it starts from, seed."""
    start = explorer_name(config.init, config.which)
    start = start if config.init == SCRATCH else f"from-{start}"
    return file_name(f"{config.task}-{config.algo}-{start}", most=150) + f"-seed-{config.seed}"


def free_place(path: Path) -> Path:
    """`path`, or where something is there already the same with the first free number."""
    names = (path if n == 1 else path.with_name(f"{path.name}-{n}") for n in itertools.count(1))
    return next(one for one in names if not one.exists() or (one.is_dir() and not any(one.iterdir())))


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
    out = "New directory for the run; by default runs/TASK-ALGO-INIT-seed-S, numbered where that is taken."
    own = "An argument of the environment's construction, as KEY=VALUE; may be given several times."
    resumed = "Continue the run in this directory instead; of the settings only --iterations is read."
    here = [Described("out", "path", "", "", out, "command"), Described("resume", "path", "", "", resumed, "command")]
    here += [Described("env_arg", "key=value", "", "", own, "command")]
    here += [dataclasses.replace(row, group="command") for row in describe(LogArguments)]
    return [*here, *(row for row in describe(config) if row.name not in ("task", "env", "env_kwargs"))]

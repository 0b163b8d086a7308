"""The `mepol` command. The only code that prints or exits."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import tyro
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from mepol import __version__
from mepol.commands import animate, compare, evaluate, finetune, goals, horizon, sweep
from mepol.commands.terminal import at_least, counting, parse, stderr, stdout
from mepol.errors import ConfigError, MepolError, MepolWarning
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import Progress, Stream, stream
from mepol.exploration.explorers import explore, load_actor, resume
from mepol.exploration.presets import PRESETS, fast, preset
from mepol.figures.summary import summarise
from mepol.figures.video import record
from mepol.finetuning.config import dotted_settings
from mepol.finetuning.presets import SOURCES, default_config
from mepol.finetuning.tasks import TASKS
from mepol.runs.directory import Run
from mepol.runs.policies import load_policy
from mepol.settings import flat_settings

USAGE = f"""\
mepol {__version__}: explore without rewards, and get one policy that covers the states evenly

  mepol explore PRESET|ENV_ID [--fast] [--seed S] [--epochs E] [--out DIR] [settings]   learn an exploration policy
  mepol resume RUN [--epochs E]                                                continue a run that was stopped
  mepol evaluate RUN... [--trajectories N] [--seed S] [--json]                 measure what their policies cover
  mepol compare RUN... [--out DIR]                                             runs side by side, with intervals
  mepol sweep FILE|PRESET [--seeds N] [--jobs J] [--out DIR]                   seeds and variants, in parallel
  mepol horizon RUN... [--until H] [--out DIR]                                 entropy over the testing horizon
  mepol animate RUN [--out FILE.gif]                                           coverage over training
  mepol video RUN [--episodes N] [--out FILE.mp4]                              film it, before and after training
  mepol finetune TASK [--init RUN|none] [--algo trpo|...] [--seed S] [--out DIR]   learn a sparse task from it
  mepol goals RUN [--trajectories N] [--seed S] [--json]                       how often it meets goals untrained
  mepol presets                                                                the paper's settings, with sources

`mepol explore gridworld --help` lists every setting of a preset; any other command takes --help as well.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0 done, 1 failed, 2 wrong usage or values, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    commands: dict[str, Callable[[list[str]], None]] = {
        "explore": _explore,
        "resume": _resume,
        "evaluate": evaluate.command,
        "compare": compare.command,
        "sweep": sweep.command,
        "horizon": horizon.command,
        "animate": animate.command,
        "video": _video,
        "finetune": finetune.command,
        "goals": goals.command,
        "presets": _presets,
    }
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        stdout.print(USAGE, end="")
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        stdout.print(f"mepol {__version__}")
        return 0
    name, rest = arguments[0], arguments[1:]
    try:
        if name not in commands:
            raise ConfigError(f"no command {name!r}; the commands are {', '.join(commands)}")
        with _signals_and_warnings():
            commands[name](rest)
    except MepolError as fault:
        stderr.print(f"mepol: {fault}")
        return 2 if isinstance(fault, ConfigError) else 1
    except KeyboardInterrupt:
        stderr.print(
            "mepol: interrupted; what was finished is on disk, and mepol resume goes on from there", soft_wrap=True
        )
        return 130
    except Terminated as signalled:
        stderr.print(
            "mepol: terminated; what was finished is on disk, and mepol resume goes on from there", soft_wrap=True
        )
        return 128 + signalled.number
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except (OSError, MemoryError) as fault:
        stderr.print(f"mepol: the system refused: {str(fault) or 'out of memory'}")
        return 1
    return 0


class Terminated(BaseException):
    """SIGTERM, or SIGHUP of a closed terminal: unwinds like Ctrl-C, so that the run's state reaches the disk."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def _signals_and_warnings() -> Iterator[None]:
    """Termination unwinds the stack, and our own warnings are one line each; both as before afterwards."""

    def terminate(number: int, _: object) -> None:
        raise Terminated(number)

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if issubclass(category, MepolWarning):
            stderr.print(f"mepol: warning: {message}")
        else:
            show_others(message, category, *rest)

    show_others = warnings.showwarning
    heard = [s for s in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) is not signal.SIG_IGN]  # nohup stays
    before = {number: signal.signal(number, terminate) for number in heard}
    with warnings.catch_warnings():
        warnings.simplefilter("always", MepolWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


# --- explore ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExploreArguments:
    """Learn one policy that covers the environment's states evenly, without any reward."""

    config: ExploreConfig
    out: Path | None = None
    """New directory for the run; by default runs/NAME-seed-S."""
    fast: bool = False
    """Start from settings that reach the same entropy in a fraction of the time, instead of the paper's: tuned for
    gridworld, mountain-car, ant and humanoid, general ones for any other preset or environment."""


def _explore(arguments: list[str]) -> None:
    if not arguments or arguments[0].startswith("-"):
        if arguments and arguments[0] in ("-h", "--help"):
            stdout.print(USAGE)
            _presets([])
            return
        raise ConfigError(f"explore needs a preset or an environment id first; presets: {', '.join(PRESETS)}")
    name, rest = arguments[0], arguments[1:]
    default = _default_config(name)
    if "--fast" in rest and not name.endswith("-fast"):  # before the rest is read: the other settings start from it
        name, default = f"{name}-fast", fast(name, default)
    parsed = parse(ExploreArguments, rest, f"mepol explore {name}", default=ExploreArguments(default))
    config = parsed.config
    label = name.replace("/", "-") + ("" if config.explorer == "mepol" else f"-{config.explorer}")
    out = parsed.out or Path("runs") / f"{label}-seed-{config.seed}"
    stdout.print(_what(config))
    _print_summary(_with_progress_bar(config.length, lambda report: explore(config, out, report)))


def _what(config: ExploreConfig) -> str:
    """One line that says what is about to be done."""
    if config.explorer == "mepol":
        return f"exploring {config.env}: {config.epochs} epochs of {config.trajectories} x {config.horizon} steps"
    if config.explorer == "maxent":
        rival = config.maxent
        return (
            f"exploring {config.env} with maxent: {rival.mixture_size} rounds of {rival.trpo_iterations} TRPO updates "
            f"of {rival.trpo_steps} steps, density of {rival.density_trajectories} x {rival.density_horizon} steps"
        )
    return f"exploring {config.env} with {config.explorer} actions: nothing is learnt, only measured"


def _default_config(name: str) -> ExploreConfig:
    """A preset's settings, or for the id of any other environment the general defaults."""
    if name not in PRESETS and name in gymnasium.registry:
        return ExploreConfig(env=name)
    return preset(name).config


@dataclass(frozen=True)
class ResumeArguments:
    """Continue a run from its last checkpoint; the result equals that of a run never stopped."""

    run: tyro.conf.Positional[Path]
    """Run directory."""
    epochs: int | None = None
    """New length of the run, in epochs; by default the one it was started with."""


def _resume(arguments: list[str]) -> None:
    parsed = parse(ResumeArguments, arguments, "mepol resume")
    length = parsed.epochs if parsed.epochs is not None else Run.open(parsed.run).config.length
    _print_summary(_with_progress_bar(length, lambda report: resume(parsed.run, epochs=parsed.epochs, report=report)))


def _with_progress_bar(epochs: int, work: Callable[[Callable[[Progress], None]], Run]) -> Run:
    with counting("epoch", epochs) as tell:
        return work(lambda p: tell(p.row.epoch, p.epochs, _row_text(p.row), p.evaluation is not None))


def _row_text(row: Any) -> str:
    parts = []
    if row.entropy is not None:
        parts.append(f"entropy {row.entropy:7.3f}  kl {row.kl:6.3f}  steps {row.steps:2d}")
    if row.index is not None:
        parts.append(f"index {row.index:7.3f}")
    if row.discrete_entropy is not None:
        parts.append(f"discrete {row.discrete_entropy:5.3f}")
    return "  ".join(parts)


def _print_summary(run: Run) -> None:
    summary = summarise(run)
    ceiling = "" if summary.ceiling is None else f" (ceiling {summary.ceiling:.3f})"
    first, last = summary.first, summary.last
    stdout.print(f"entropy index {first.index:.3f} -> {last.index:.3f} nats{ceiling}, {last.samples} training samples")
    if first.discrete_entropy is not None:
        stdout.print(
            f"discrete entropy {first.discrete_entropy:.3f} -> {last.discrete_entropy:.3f} nats an episode, "
            f"cells visited {first.cells} -> {last.cells}"
        )
    if first.discrete_entropy is None:
        stdout.print("no heatmap: the first two coordinates are unbounded; give --heatmap-low and --heatmap-high")
    stdout.print(f"run directory {run.path}; figures:")
    for figure in summary.figures:
        stdout.print(f"  {figure}")


# --- video --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VideoArguments:
    """Film a run's policy, side by side with the one it started from."""

    run: tyro.conf.Positional[Path]
    """Run directory."""
    episodes: int = 1
    """Episodes to film."""
    steps: int | None = None
    """Steps an episode; by default the run's horizon."""
    seed: int = 0
    """Of start states and action noise."""
    out: Path | None = None
    """File to write; by default RUN/figures/policy.mp4."""


def _video(arguments: list[str]) -> None:
    parsed = parse(VideoArguments, arguments, "mepol video")
    at_least("seed", parsed.seed, 0)
    run = Run.open(parsed.run)
    actors = {"after": load_actor(run)}
    if run.initial_policy_path.is_file():
        actors = {"before": load_policy(run.initial_policy_path), **actors}
    with Bar(TextColumn("filming"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=stdout) as bar:
        task = bar.add_task("frames", total=None)
        path = record(
            actors,
            run.config.env,
            episodes=parsed.episodes,
            horizon=run.config.horizon if parsed.steps is None else parsed.steps,
            seed=stream(parsed.seed, Stream.FILM),
            path=parsed.out or run.path / "figures" / "policy.mp4",
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    stdout.print(f"{' | '.join(actors)}: {path}")


# --- presets ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PresetsArguments:
    """List the presets of explore and finetune with their settings and where each comes from."""


def _presets(arguments: list[str]) -> None:
    parse(PresetsArguments, arguments, "mepol presets")
    for name, entry in PRESETS.items():
        _print_preset(f"{name}: {entry.summary}", flat_settings(entry.config), entry.sources)
    for name, task in TASKS.items():
        title = f"finetune {name}: {task.id}, which the paper starts from {task.explorer}"
        _print_preset(title, dotted_settings(default_config(name)), SOURCES)


def _print_preset(title: str, settings: dict[str, Any], sources: dict[str, str]) -> None:
    table = Table("setting", "value", "source", title=title, title_justify="left")
    for name, value in settings.items():
        if (source := sources.get(name, "default")) != "default":
            table.add_row(name, str(value), source)
    stdout.print(table, soft_wrap=False)

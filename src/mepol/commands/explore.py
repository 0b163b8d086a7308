"""`mepol explore PRESET|ENV_ID`: its arguments and what it shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from mepol.commands.help import all_settings, first_screen
from mepol.commands.sampling import SamplingArguments
from mepol.commands.terminal import assignment, parse_rest, parse_some, resumable
from mepol.commands.watch import WatchArguments
from mepol.console.progress import noting, telling
from mepol.console.screen import stdout
from mepol.console.summary import print_summary
from mepol.errors import ConfigError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import explore
from mepol.exploration.explorers import explorer_kind
from mepol.exploration.presets import PRESETS, starting_config
from mepol.exploration.study import read_study
from mepol.exploration.worlds.start import starting_worlds
from mepol.settings import Described, describe, with_settings

USAGE = "mepol explore PRESET|ENV_ID|FILE.toml [--fast] [--explorer NAME] [--flag VALUE ...] [--out DIR] [--verbose]"
SEVERAL = "mepol explore [PRESET|ENV_ID] --envs FILE.toml [--risk ALPHA] [--flag VALUE ...]"
WHAT = "Learn one policy that covers the environment's states evenly, without any reward."
COMMON = (
    *("fast", "explorer", "seed", "epochs", "horizon", "trajectories", "features", "k", "kl_threshold"),
    *("learning_rate", "max_steps", "hidden", "log_std", "scale_inputs", "evaluate_every", "heatmap_axes"),
    *("ceiling", "stop_index", "log", "threads", "out"),
)
"""What the first screen of --help shows."""
GROUPS = {
    "command": "the command",
    "run": "the run",
    "ascent": "the ascent",
    "critic": "the critic (with --rule advantage)",
    "policy": "the policy",
    "evaluation": "its evaluation",
    "worlds": "several environments (with --envs)",
    "machine": "the machine (changes no number)",
    "rival": "the explorer's own",
}


@dataclass(frozen=True)
class Choices:
    """What decides how the other arguments are read."""

    explorer: str = "mepol"
    """What explores."""
    fast: bool = False
    """Start from settings that reach the same entropy in a fraction of the time, instead of the paper's: tuned for the
    presets that `mepol presets` lists with -fast, general ones for any other; the default where there is none."""
    paper_rule: bool = False
    """Without a preset: the paper's rule and network instead of the general fast settings."""
    observations: Literal["state", "pixels"] = "state"
    """What the policy sees: the state, or of GridWorld and MountainCar a small picture of it."""
    encoder: Literal["none", "random"] = "none"
    """For environments whose observations are pictures: take the entropy of an embedding by a frozen random network."""
    envs: str = ""
    """A TOML file of several environments with their probabilities, in the place of the one (docs/method/worlds.md)."""
    help: Annotated[bool, tyro.conf.arg(aliases=["-h"])] = False
    """The settings that people use."""
    help_all: bool = False
    """Every setting."""


@dataclass(frozen=True)
class ExploreArguments:
    """Learn one policy that covers the environment's states evenly, without any reward."""

    config: ExploreConfig
    out: Path | None = None
    """New directory for the run; by default runs/NAME-seed-S."""
    env_arg: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An argument of the environment's construction, KEY=VALUE with a TOML value; may be given several times."""
    wrapper: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A class that wraps the environment, MODULE:CLASS; may be given several times, the innermost first."""
    watch: WatchArguments = field(default_factory=WatchArguments)
    sampling: SamplingArguments = field(default_factory=SamplingArguments)


def command(arguments: list[str]) -> None:
    """Explore, show how it goes, and say where everything is."""
    named = bool(arguments) and not arguments[0].startswith("-")
    if arguments and arguments[0] in ("-h", "--help", "--help-all"):
        stdout.print(_presets())
        return
    prog = " ".join(["mepol explore", *arguments[:named]])
    choices, rest = parse_some(Choices, arguments[named:], prog)
    if not named and not choices.envs:
        raise ConfigError(f"explore needs a preset or an environment id first; presets: {', '.join(PRESETS)}")
    name = arguments[0] if named else choices.envs
    how: Any = {
        **{"explorer": choices.explorer, "quick": choices.fast, "paper_rule": choices.paper_rule},
        **{"observations": choices.observations, "encoder": choices.encoder},
    }
    if choices.envs:
        default = starting_worlds(choices.envs, name if named else None, **how)
    elif name.endswith(".toml"):
        default = _from_file(name, choices)
    else:
        default = starting_config(name, **how)
    if choices.help or choices.help_all:
        stdout.print(_help(f"{prog} [--flag VALUE ...]", default, everything=choices.help_all))
        return
    flat = Annotated[ExploreArguments, tyro.conf.OmitArgPrefixes]
    parsed = parse_rest(flat, rest, prog + " --fast" * choices.fast, ExploreArguments(default))
    config: ExploreConfig = with_settings(
        parsed.config,
        {
            "env_kwargs": {**parsed.config.env_kwargs, **dict(map(assignment, parsed.env_arg))},
            "wrappers": (*parsed.config.wrappers, *parsed.wrapper),
        },
    )
    out = parsed.out or Path("runs") / f"{_label(name, config, choices.fast)}-seed-{config.seed}"
    kind = explorer_kind(config.explorer)
    stdout.print(f"exploring {_where(config)}: {kind.describe(config)}")
    with resumable(out, f"mepol resume {out}"), telling("epoch", kind.length(config)) as report:
        watching = parsed.watch.callbacks()
        run = explore(config, out, given=parsed.sampling.given(), callbacks=watching, report=report, tell=noting)
    print_summary(run)


def _from_file(name: str, choices: Choices) -> ExploreConfig:
    """The settings in a TOML file of one variant (study.py), as `mepol calibrate --write` makes it."""
    if choices != Choices(help=choices.help, help_all=choices.help_all):
        raise ConfigError(
            f"{name} says itself what explores, and how: leave out --fast, --paper-rule, --explorer and --encoder"
        )
    variants = list(read_study(Path(name)).variants.values())
    if len(variants) != 1:
        raise ConfigError(f"{name} has {len(variants)} variants, which is a study: mepol sweep {name}")
    return variants[0]


def _label(name: str, config: ExploreConfig, fast: bool) -> str:
    """What the run's directory is called, but for the seed."""
    quick = "-fast" if fast and not name.endswith("-fast") else ""
    name = Path(name).stem if name.endswith(".toml") else name
    return name.replace("/", "-") + quick + ("" if config.explorer == "mepol" else f"-{config.explorer}")


def _where(config: ExploreConfig) -> str:
    worlds = config.worlds
    return f"{len(worlds.envs)} worlds at risk {worlds.risk:g}" if worlds.envs else config.env


# --- Help -----------------------------------------------------------------------------------------------------------


def _presets() -> str:
    names = [f"  {name:<23} {entry.summary}" for name, entry in PRESETS.items()]
    usage = f"usage: {USAGE}\n       {SEVERAL}"
    return "\n".join([usage, WHAT, "", *names, "", "`mepol explore gridworld --help` shows its settings."])


def _help(usage: str, default: ExploreConfig, *, everything: bool) -> str:
    rows = flags(default)
    return all_settings(usage, WHAT, rows, GROUPS) if everything else first_screen(usage, WHAT, rows, COMMON)


def flags(default: ExploreConfig) -> list[Described]:
    """Everything that can be typed after the name, with the settings of `default`."""
    here = [row for row in describe(Choices) if row.name in ("fast", "paper_rule", "envs")]
    here += [Described("out", "path", "runs/NAME-seed-S", "", "New directory for the run.", "command")]
    own = "An argument of the environment's construction, as KEY=VALUE; may be given several times."
    around = "A class that wraps the environment, MODULE:CLASS; may be given several times, the innermost first."
    here += [
        Described("env_arg", "key=value", "", "", own, "command"),
        Described("wrapper", "module:class", "", "", around, "command"),
        *describe(WatchArguments),
        *describe(SamplingArguments),
    ]
    rows = [*(_in_command(row) for row in here), *(row for row in describe(default) if row.name != "envs")]
    return [row for row in rows if row.name not in ("env_kwargs", "wrappers")]


def _in_command(row: Described) -> Described:
    return Described(row.name, row.type, row.default, row.allowed, row.text, "command")

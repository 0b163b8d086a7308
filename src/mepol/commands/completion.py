"""`mepol completion SHELL`: a script by which Tab completes commands, presets, environments, flags and their choices.

The script holds every word itself: asking mepol at each Tab would take as long as importing it.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass
from importlib import import_module
from typing import Literal

import gymnasium
import tyro

from mepol import commands
from mepol.commands.terminal import parse
from mepol.console.screen import stdout
from mepol.exploration.presets import PRESETS, starting_config
from mepol.finetuning.presets import default_config
from mepol.finetuning.tasks import TASKS
from mepol.settings import Described, describe

SAFE = re.compile(r"[A-Za-z0-9_./-]+")  # what no shell acts on
FIRST: dict[str, Callable[[], Sequence[str]]] = {
    "explore": lambda: [*PRESETS, *sorted(gymnasium.registry)],
    "sweep": lambda: [*PRESETS],
    "finetune": lambda: [*TASKS],
    "completion": lambda: [*SCRIPTS],
}
"""What a command takes first, where that is not a run or a file: those the shell completes by itself."""
EVERYWHERE = (
    Described("help", "bool", False, "", "What it does, and the settings that people use", ""),
    Described("verbose", "bool", False, "", "Show warnings and faults in full", ""),
)


@dataclass(frozen=True)
class CompletionArguments:
    """Print a script that lets Tab complete mepol's commands, presets and flags.

    bash: mepol completion bash > ~/.local/share/bash-completion/completions/mepol;
    zsh: mepol completion zsh > a folder of $fpath, as _mepol;
    fish: mepol completion fish > ~/.config/fish/completions/mepol.fish.
    """

    shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]]
    """Whose script."""


@dataclass(frozen=True)
class Flag:
    """A flag: its name with the hyphens, the words that may follow (none: anything, or nothing), and what it does."""

    name: str
    choices: tuple[str, ...]
    text: str
    takes_value: bool


@dataclass(frozen=True)
class Entry:
    """What can be typed after one command."""

    first: tuple[str, ...]
    flags: tuple[Flag, ...]


def command(arguments: list[str]) -> None:
    """Print the script."""
    parsed = parse(CompletionArguments, arguments, "mepol completion")
    stdout.print(SCRIPTS[parsed.shell](entries()), end="")


def entries() -> dict[str, Entry]:
    """Every command, as the modules beside this one tell of themselves."""
    found = {}
    for info in pkgutil.iter_modules(commands.__path__):
        module = import_module(f"{commands.__name__}.{info.name}")
        if hasattr(module, "command"):
            own = getattr(module, f"{info.name.title()}Arguments", None)
            words = tuple(word for word in FIRST.get(info.name, tuple)() if SAFE.fullmatch(word))
            found[info.name] = Entry(words, tuple(_flags([*_rows(info.name, own), *EVERYWHERE])))
    return found


def _rows(name: str, arguments: type | None) -> list[Described]:
    if name == "explore":
        from mepol.commands.explore import flags as of_exploration

        return of_exploration(starting_config(next(iter(PRESETS))))
    if name == "finetune":
        from mepol.commands.finetune import flags as of_finetuning

        return of_finetuning(default_config(next(iter(TASKS))))
    return [] if arguments is None else [row for row in describe(arguments) if row.default is not MISSING]


def _flags(rows: Sequence[Described]) -> Iterator[Flag]:
    for row in rows:
        choices = row.type.split("|") if "|" in row.type else row.allowed.removeprefix("one of ").split(", ")
        listed = "|" in row.type or row.allowed.startswith("one of ")
        words = tuple(word for word in choices if listed and SAFE.fullmatch(word))
        name = f"--no-{row.flag[2:]}" if row.default is True else row.flag  # what is on is typed to be switched off
        yield Flag(name, words, row.text.partition(". ")[0].rstrip("."), row.type != "bool")


# --- Scripts --------------------------------------------------------------------------------------------------------


def _cases(table: dict[str, Entry]) -> str:
    """What bash and zsh share: `words` for the command `$1`, the word before `$2` and the one that is typed `$3`."""
    lines = ["_mepol_words() {", '  case "$1 $2" in']
    for name, entry in table.items():
        lines += [f'    "{name} {f.name}") echo "{" ".join(f.choices)}"; return;;' for f in entry.flags if f.choices]
        paths = "|".join(f'"{name} {f.name}"' for f in entry.flags if f.takes_value and not f.choices)
        lines += [f"    {paths}) return;;"] if paths else []
    lines += ["  esac", '  case "$1 $3" in']
    for name, entry in table.items():
        lines.append(f'    "{name} -"*) echo "{" ".join(f.name for f in entry.flags)}";;')
        lines += [f'    "{name} "*) echo "{" ".join(entry.first)}";;'] if entry.first else []
    return "\n".join([*lines, "  esac", "}", ""])


def _bash(table: dict[str, Entry]) -> str:
    return (
        _cases(table)
        + f"""_mepol() {{
  local typed="${{COMP_WORDS[COMP_CWORD]}}" words="{" ".join(table)} --version"
  [ "$COMP_CWORD" -gt 1 ] && words="$(_mepol_words "${{COMP_WORDS[1]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}" "$typed")"
  COMPREPLY=($(compgen -W "$words" -- "$typed"))
}}
complete -o bashdefault -o default -F _mepol mepol
"""
    )


def _zsh(table: dict[str, Entry]) -> str:
    return (
        "#compdef mepol\n"
        + _cases(table)
        + f"""_mepol() {{
  local found="{" ".join(table)} --version"
  (( CURRENT > 2 )) && found="$(_mepol_words "$words[2]" "$words[CURRENT-1]" "$words[CURRENT]")"
  if [[ -n "$found" ]]; then compadd -- ${{=found}}; else _files; fi
}}
if [[ "$funcstack[1]" == "_mepol" ]]; then _mepol "$@"; else compdef _mepol mepol; fi
"""
    )


def _fish(table: dict[str, Entry]) -> str:
    lines = [f'complete -c mepol -n __fish_use_subcommand -f -a "{" ".join(table)}"']
    for name, entry in table.items():
        here = f'complete -c mepol -n "__fish_seen_subcommand_from {name}"'
        lines += [f'{here} -a "{" ".join(entry.first)}"'] if entry.first else []
        for flag in entry.flags:
            value = f' -x -a "{" ".join(flag.choices)}"' if flag.choices else " -r" if flag.takes_value else ""
            text = flag.text.replace("\\", "\\\\").replace("'", "\\'")
            lines.append(f"{here} -l {flag.name[2:]}{value} -d '{text}'")
    return "\n".join([*lines, ""])


SCRIPTS: dict[str, Callable[[dict[str, Entry]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}

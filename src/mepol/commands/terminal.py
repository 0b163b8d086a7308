"""What every command shares: where it prints, how it reads its arguments, and what a user is told who stops it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from mepol.errors import ConfigError
from mepol.runs.text import plain
from mepol.settings import require


def at_least(name: str, value: int, least: int) -> None:
    """ConfigError unless `value` is `least` or more."""
    require(value >= least, name, value, f"at least {least}")


# --- Arguments ------------------------------------------------------------------------------------------------------

Which = Literal["last", "best", "initial"]
"""Which policy of a run is meant: the newest, the one with the best evaluation, or the one it started from."""
SomeInt = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]
"""A number that may be left out; its text says what holds then."""
SomeFloat = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="")]
SomeText = Annotated[str | None, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")]
SomePath = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")]


def parse(kind: Any, arguments: list[str], prog: str, default: Any = None) -> Any:
    """Arguments into a dataclass; nested settings become flat flags."""
    flat = Annotated[kind, tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes]
    extra = {} if default is None else {"default": default}
    about = f"{kind.__doc__} With --verbose, warnings and faults are shown in full."
    return tyro.cli(flat, prog=prog, args=arguments, description=about, **extra)


def parse_some(kind: Any, arguments: list[str], prog: str) -> tuple[Any, list[str]]:
    """The arguments that `kind` knows, and the rest: what they say decides how the rest is read.

    Help is an argument like any other here, so that it can speak of the rest too.
    """
    known = Annotated[kind, tyro.conf.FlagCreatePairsOff]
    parsed, rest = tyro.cli(known, prog=prog, args=arguments, return_unknown_args=True, add_help=False)
    return parsed, list(rest)


def parse_rest(kind: Any, arguments: list[str], prog: str, default: Any) -> Any:
    """What `parse_some` left, over the settings in `default`."""
    return tyro.cli(kind, prog=prog, args=arguments, default=default, add_help=False)


def assignment(text: str) -> tuple[str, Any]:
    """NAME=VALUE, the value as TOML, true and false also as Python writes them; a bare word is a text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"{text!r} is not a setting: write NAME=VALUE")
    value = {"True": "true", "False": "false"}.get(value.strip(), value)
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return name.strip(), value


# --- Being stopped ----------------------------------------------------------------------------------------------------


class Terminated(BaseException):
    """SIGTERM, or SIGHUP of a closed terminal: unwinds like Ctrl-C, so that the run's state reaches the disk."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def resumable(path: Path, command: str, mark: str = "config.json") -> Iterator[None]:
    """Whoever stops the block is told what is in `path`, once `mark` is there, and the `command` that goes on."""
    try:
        yield
    except (KeyboardInterrupt, Terminated) as stop:
        finished = f"what was finished is in {path}, and {command} goes on from there"
        stop.add_note(finished if (path / mark).exists() else f"nothing was written to {path} yet")
        raise


def parting_words(stop: BaseException) -> str:
    """What is left of the work that `stop` ended, and how to go on."""
    return plain(next(iter(getattr(stop, "__notes__", ())), "what was finished is kept"))

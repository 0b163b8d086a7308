"""What every command shares: where it prints, and how it reads its arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mepol.errors import ConfigError

# Lines and paths are printed as they are, and a sentence stays one line.
stdout = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
stderr = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def at_least(name: str, value: int, least: int) -> None:
    """ConfigError unless `value` is `least` or more."""
    if value < least:
        raise ConfigError(f"{name} = {value} is not possible: it must be at least {least}")


def parse(kind: Any, arguments: list[str], prog: str, default: Any = None) -> Any:
    """Arguments into a dataclass; nested settings become flat flags."""
    flat = Annotated[kind, tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes]
    extra = {} if default is None else {"default": default}
    return tyro.cli(flat, prog=prog, args=arguments, **extra)


Tell = Callable[[int, int, str, bool], None]


@contextmanager
def counting(noun: str, total: int) -> Iterator[Tell]:
    """A progress bar of `total` nouns on a terminal, a line each where the output goes elsewhere.

    Yields tell(done, total, text, keep): on a terminal, only what is to be kept becomes a line of its own.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
    )
    live = stdout.is_terminal
    with Progress(*columns, console=stdout, disable=not live) as bar:
        task = bar.add_task(noun, total=total, state="")

        def tell(done: int, total: int, text: str, keep: bool) -> None:
            bar.update(task, completed=done, total=total, state=text)
            if keep or not live:
                bar.console.print(f"{noun} {done:4d}/{total}  {text}")

        yield tell

"""Where everything is printed: on a terminal, in a notebook, or into a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from mepol.runs.text import plain


class Screen(Console):
    """A console on which no text acts: escapes of strangers' files are shown, not obeyed. A sentence stays one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, soft_wrap=True, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Every text passes here, also those in tables and bars."""
        return super().render_str(plain(text, most=100_000), **options)


stdout = Screen()
stderr = Screen(stderr=True)

Tell = Callable[[int, int, str, bool], None]


@contextmanager
def counting(noun: str, total: int) -> Iterator[Tell]:
    """A progress bar of `total` nouns on a terminal or in a notebook, a line each where the output goes elsewhere.

    Yields tell(done, total, text, keep): beside a bar, only what is to be kept becomes a line of its own.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}", markup=False),
        TimeRemainingColumn(),
    )
    live = stdout.is_terminal or stdout.is_jupyter
    with Progress(*columns, console=stdout, disable=not live) as bar:
        task = bar.add_task(noun, total=total, state="")

        def tell(done: int, total: int, text: str, keep: bool) -> None:
            bar.update(task, completed=done, total=total, state=text)
            if keep or not live:
                bar.console.print(f"{noun} {done:4d}/{total}  {text}")

        yield tell

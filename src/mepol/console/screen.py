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
        redraw = _in_notebook(bar) if stdout.is_jupyter else None

        def tell(done: int, total: int, text: str, keep: bool) -> None:
            bar.update(task, completed=done, total=total, state=text)
            if redraw is not None:
                redraw(bar)
            if keep or not (live or redraw):
                bar.console.print(f"{noun} {done:4d}/{total}  {text}")

        yield tell


def _in_notebook(bar: Progress) -> Callable[[Progress], None] | None:
    """Show `bar` in a cell's output; what draws it again there. Rich's own way would need ipywidgets."""
    from IPython.display import DisplayHandle, display

    handle: DisplayHandle | None = display(bar, display_id=True)  # type: ignore[no-untyped-call]
    return None if handle is None else handle.update

"""Warnings of others between our lines: one line each in our own style, and the whole of it on request."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mepol.console.screen import stderr
from mepol.errors import MepolWarning, PackageNews

MOST = 160  # characters of a foreign warning in its line
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@contextmanager
def one_line_each(*, verbose: bool = False) -> Iterator[None]:
    """In the block a warning is one line, and is said once; `verbose` shows those of others whole, with their place.

    Records of Python's logging that nobody takes care of are told alike. Everything is as before afterwards.
    """
    said: set[str] = set()

    def say(text: str) -> None:
        if text not in said:
            said.add(text)
            stderr.print(f"mepol: warning: {text}")

    def show(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any) -> None:
        if issubclass(category, MepolWarning):
            stderr.print(f"mepol: warning: {message}")
        elif verbose:
            say(f"{_bare(str(message))} ({category.__name__}, {filename}, line {lineno})")
        elif not issubclass(category, PackageNews):
            say(short(str(message), origin_of(filename)))

    class Unheard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            say(f"{_bare(text)} ({record.name})" if verbose else short(text, record.name.partition(".")[0]))

    last_resort = logging.lastResort
    with warnings.catch_warnings():
        warnings.simplefilter("always", MepolWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        logging.lastResort = Unheard(logging.WARNING)
        try:
            yield
        finally:
            logging.lastResort = last_resort


def short(text: str, origin: str) -> str:
    """A foreign warning as one line: whose it is, and its beginning without colours."""
    words = " ".join(_bare(text).split())
    if len(words) > MOST:
        words = f"{words[:MOST].rsplit(' ', 1)[0]} ... (--verbose shows all)"
    return f"{origin}: {words}" if origin else words


def origin_of(filename: str) -> str:
    """The package that a file belongs to, or the file's name where it is in none."""
    parts = Path(filename).parts
    for place in ("site-packages", "dist-packages"):
        if place in parts[:-1]:
            return Path(parts[parts.index(place) + 1]).stem
    return parts[-1] if parts else ""


def _bare(text: str) -> str:
    """Without colours, and without the word that a library puts before its warnings."""
    return re.sub(r"^(WARN|WARNING|ERROR): ", "", _COLOURS.sub("", text).strip())

"""A trap in the file operations of this process: a signal before, after or in the middle of the n-th of them.

Operations are the calls that change a disk: what is created, written, cut, synced, renamed or removed. They are those
of files.py and lock.py, through which everything of a run is written, and of the `Path.mkdir` that makes its directory.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

OURS = ("mepol.", "pathlib")
CALLS = ("mkdir", "replace", "unlink", "fsync", "truncate", "ftruncate")
MOMENTS = ("before", "half", "after")


class Trap:
    """Counts operations of one kind (`any`: of all), and springs at the n-th.

    kind: `create`, `write` (whole files), `row` (what is appended), `pwrite`, or one of CALLS.
    moment: `before` or `after` it, or when `half` of what it writes is in the file; what writes nothing has no half.
    """

    def __init__(self, kind: str, n: int, moment: str, *, send: int = signal.SIGKILL) -> None:
        self.kind, self.left, self.moment, self.send = kind, n, moment, send
        self.seen: list[str] = []

    def set(self) -> None:
        for name in CALLS:
            setattr(os, name, self.around(name, getattr(os, name)))
        os.open = self.opened(os.open)  # type: ignore[assignment]
        os.pwrite = self.written("pwrite", os.pwrite, data=1)  # type: ignore[assignment]
        os.fdopen = self.wrapped(os.fdopen)  # type: ignore[assignment]

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def trapped(*arguments: Any, **named: Any) -> Any:
            if not is_ours():
                return function(*arguments, **named)
            due = self.due(name)
            self.spring(due, "before")
            result = function(*arguments, **named)
            self.spring(due, "after")
            return result

        return trapped

    def opened(self, function: Callable[..., Any]) -> Callable[..., Any]:
        creating = self.around("create", function)

        def trapped(path: Any, flags: int, *arguments: Any, **named: Any) -> Any:
            if is_ours() and flags & os.O_CREAT:
                return creating(path, flags, *arguments, **named)
            return function(path, flags, *arguments, **named)

        return trapped

    def written(self, name: str, function: Callable[..., Any], *, data: int = 0) -> Callable[..., Any]:
        """`function`, whose argument number `data` is bytes."""

        def trapped(*arguments: Any) -> Any:
            if name == "pwrite" and not is_ours():
                return function(*arguments)
            due, whole = self.due(name), bytes(arguments[data])
            self.spring(due, "before")
            if due and self.moment == "half":
                function(*arguments[:data], whole[: len(whole) // 2], *arguments[data + 1 :])
            self.spring(due, "half")
            result = function(*arguments)
            self.spring(due, "after")
            return result

        return trapped

    def wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def trapped(handle: int, mode: str, *arguments: Any, **named: Any) -> Any:
            if not is_ours() or "w" not in mode:
                return function(handle, mode, *arguments, **named)
            appended = bool(fcntl_flags(handle) & os.O_APPEND)
            return _File(self, "row" if appended else "write", function(handle, mode, buffering=0))

        return trapped

    def due(self, name: str) -> bool:
        """Count an operation; whether it is the one."""
        self.seen.append(name)
        if self.kind in (name, "any"):
            self.left -= 1
            return self.left == 0
        return False

    def spring(self, due: bool, moment: str) -> None:
        if due and moment == self.moment:
            os.kill(os.getpid(), self.send)
            if self.send != signal.SIGSTOP:
                time.sleep(30)  # until the signal is heard: it may reach another thread first


class _File:
    """A file object whose `write` is trapped; without a buffer, so that what was written is in the file."""

    def __init__(self, trap: Trap, name: str, file: Any) -> None:
        self._file = file
        self.write = trap.written(name, file.write)
        self.fileno, self.flush = file.fileno, file.flush

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def is_ours() -> bool:
    """Whether the caller of a trapped function is what writes runs."""
    name = sys._getframe(2).f_globals.get("__name__", "")
    return name.startswith(OURS) and not name.startswith("mepol.commands")


def fcntl_flags(handle: int) -> int:
    import fcntl

    return fcntl.fcntl(handle, fcntl.F_GETFL)

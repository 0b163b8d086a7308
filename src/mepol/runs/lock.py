"""One process at a time works on a run; the system frees the lock however that process ends."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mepol.errors import RunError


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Hold the directory `path` for this process; a second is refused.

    The file `lock` must be a plain file of its own: what a link leads to is never written.
    """
    try:
        handle = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as fault:
        if (path / "lock").is_symlink():
            raise _foreign(path, "is a symbolic link") from fault
        raise RunError(f"cannot write {path / 'lock'}: {fault.strerror or fault}") from fault
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise _foreign(path, "is not a plain file of its own")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as fault:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip().removeprefix("mepol ")
            raise RunError(f"{path} is in use by process {holder}; wait for it, or stop it") from fault
        except OSError as fault:
            raise RunError(f"cannot lock {path}: {fault}") from fault
        with suppress(OSError):  # the number is a courtesy: a full disk must not keep the lock from being held
            os.truncate(handle, 0)
            os.pwrite(handle, f"mepol {os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def is_lock(path: Path) -> bool:
    """Whether the plain file `path` holds what `hold` writes, part of it, or nothing yet."""
    if path.stat().st_size > 32:
        return False
    text = path.read_bytes()
    return text == b"mepol "[: len(text)] or re.fullmatch(rb"mepol [0-9]+\n?", text) is not None


def _foreign(path: Path, what: str) -> RunError:
    return RunError(f"{path / 'lock'} {what}, and nothing is written outside {path}; remove it")

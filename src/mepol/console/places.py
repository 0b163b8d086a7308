"""Where a run goes that nobody gave a place."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mepol.console.screen import stdout


@contextmanager
def place(out: str | Path | None, phase: str, shown: bool) -> Iterator[Path]:
    """Where a run goes; a temporary place is told, and goes again where no run came of it."""
    if out is not None:
        yield Path(out)
        return
    path = Path(tempfile.mkdtemp(prefix=f"mepol-{phase}-")) / "run"
    if shown:
        stdout.print(f"the run goes to {path}, which is temporary: give out= to keep it")
    try:
        yield path
    finally:
        with suppress(OSError):  # it holds the run
            path.parent.rmdir()

"""One member of a sweep: `python -m mepol.exploration.member DIRECTORY`, its settings on standard input."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mepol.errors import MepolError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import explore, resume
from mepol.runs.callbacks import Progress
from mepol.runs.text import plain
from mepol.settings import from_json


def main(path: Path, settings: str) -> int:
    """Begin the run in `path`, or go on with it; the exit code."""
    with stoppable():
        fault = work_on(path, settings, _say)
    if fault:
        sys.stderr.write(f"mepol: {fault}\n")
    return 1 if fault else 0


@contextmanager
def stoppable() -> Iterator[None]:
    """A signal to end unwinds the block as SystemExit, so that the state of the last epoch reaches the disk."""

    def stop(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def work_on(path: Path, settings: str, report: Callable[[Progress], None]) -> str:
    """Begin the run in `path`, or go on with it to its end; empty, or the sentence that says why it cannot."""
    try:
        if (path / "config.json").exists():
            resume(path, report=report)
        else:
            explore(from_json(ExploreConfig, settings), path, report=report)
    except (MepolError, ImportError, OSError, MemoryError) as fault:
        return plain(str(fault) or type(fault).__name__)
    return ""


def _say(progress: Progress) -> None:
    sys.stdout.write(f"epoch {progress.turn}/{progress.length}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.stdin.read()))

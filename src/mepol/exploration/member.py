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
        return told(work_on(path, settings, say))


def told(fault: str) -> int:
    """The exit code of a process whose work ended with this sentence, which is printed."""
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
    """Begin the exploration in `path`, or go on with it to its end; empty, or the sentence that says why it cannot."""
    return work(
        path,
        begin=lambda: explore(from_json(ExploreConfig, settings), path, report=report),
        go_on=lambda: resume(path, report=report),
    )


def work(path: Path, *, begin: Callable[[], object], go_on: Callable[[], object]) -> str:
    """The same of a run of either phase, by what begins it and what goes on with it."""
    try:
        (go_on if (path / "config.json").exists() else begin)()
    except (MepolError, ImportError, OSError, MemoryError) as fault:
        return plain(str(fault) or type(fault).__name__)
    return ""


def say(progress: Progress) -> None:
    """A line of each turn, for the log."""
    sys.stdout.write(f"{progress.run.phase.turn} {progress.turn}/{progress.length}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.stdin.read()))

"""One member of a sweep: `python -m mepol.exploration.member DIRECTORY`, its settings on standard input."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

from mepol.errors import MepolError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import explore, resume
from mepol.runs.callbacks import Progress
from mepol.runs.text import plain
from mepol.settings import from_json


def main(path: Path, settings: str) -> int:
    """Begin the run in `path`, or go on with it; the exit code."""
    return work(
        path,
        begin=lambda: explore(from_json(ExploreConfig, settings), path, report=say),
        go_on=lambda: resume(path, report=say),
    )


def work(path: Path, *, begin: Callable[[], object], go_on: Callable[[], object]) -> int:
    """Begin the run of either phase in `path`, or go on with it where it is there; the exit code of the process."""

    def stop(number: int, _: object) -> None:
        raise SystemExit(128 + number)  # unwinds, so that the state of the last epoch reaches the disk

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, stop)
    try:
        (go_on if (path / "config.json").exists() else begin)()
    except (MepolError, ImportError, OSError, MemoryError) as fault:
        sys.stderr.write(f"mepol: {plain(str(fault) or type(fault).__name__)}\n")
        return 1
    return 0


def say(progress: Progress) -> None:
    """A line of each turn, for the log."""
    sys.stdout.write(f"{progress.run.phase.turn} {progress.turn}/{progress.length}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.stdin.read()))

"""One member of a sweep: `python -m mepol.exploration.member DIRECTORY`, its settings on standard input."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from mepol.errors import MepolError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import explore, resume
from mepol.runs.callbacks import Progress
from mepol.runs.text import plain
from mepol.settings import from_json


def main(path: Path, settings: str) -> int:
    """Begin the run in `path`, or go on with it; the exit code."""

    def stop(number: int, _: object) -> None:
        raise SystemExit(128 + number)  # unwinds, so that the state of the last epoch reaches the disk

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, stop)
    try:
        if (path / "config.json").exists():
            resume(path, report=_say)
        else:
            explore(from_json(ExploreConfig, settings), path, report=_say)
    except (MepolError, ImportError, OSError, MemoryError) as fault:
        sys.stderr.write(f"mepol: {plain(str(fault) or type(fault).__name__)}\n")
        return 1
    return 0


def _say(progress: Progress) -> None:
    sys.stdout.write(f"epoch {progress.turn}/{progress.length}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.stdin.read()))

"""One fine-tuning run of a study: `python -m mepol.reproduce.task DIRECTORY`, its settings on standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from mepol.api import begin_finetuning
from mepol.exploration.member import say, stoppable, told, work
from mepol.finetuning.config import FinetuneConfig
from mepol.finetuning.drive import resume
from mepol.settings import from_json


def main(path: Path, settings: str) -> int:
    """Begin the run in `path`, or go on with it; the exit code."""
    with stoppable():
        fault = work(
            path,
            begin=lambda: begin_finetuning(from_json(FinetuneConfig, settings), path, report=say),
            go_on=lambda: resume(path, report=say),
        )
        return told(fault)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.stdin.read()))

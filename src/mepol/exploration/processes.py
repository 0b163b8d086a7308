"""The engine of one machine: each member is worked on by a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress

from mepol.exploration.study import Member
from mepol.exploration.sweep import log_path
from mepol.runs.files import Door
from mepol.settings import to_json


class Processes:
    """Members as processes of this machine (see `sweep.Engine`)."""

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        """No process outlives it: each is asked to stop, and killed if it does not."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self, member: Member) -> None:
        """A process that works on the member; in a group of its own, so that Ctrl-C reaches it through us alone."""
        log = Door(member.path.parent, "; choose another --out").open_log(f"logs/{log_path(member).name}")
        threads = {n: str(member.config.machine.threads or 1) for n in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", member.module, str(member.path)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **threads},
                start_new_session=True,
            )
        finally:
            os.close(log)
        self._running[member.name] = process
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin:  # one that died at once is seen by its exit code
            process.stdin.write(to_json(member.config).encode())

    def ended(self) -> dict[str, int]:
        """Exit codes of those that have ended; waits for one, and a second at most."""
        for _ in range(10):
            codes = {name: code for name, process in self._running.items() if (code := process.poll()) is not None}
            if codes:
                break
            time.sleep(0.1)
        for name in codes:
            del self._running[name]
        return codes

    def is_running(self, name: str) -> bool:
        """Always: a process has its room at once."""
        return True

"""A process that has imported everything and forks: each child is a real `mepol` command that can be killed.

Run as a script. It reads one JSON request a line and answers each with one JSON line:

    {"argv": [...], "log": path, "sabotage": {...}}  ->  {"pid": n}
    {"wait": pid, "seconds": s}                      ->  {"code": exit code, negative for a signal, null for a hang,
                                                          "peak": most memory it ever took, MB, "busy": seconds}
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import crash
import toys
from trap import Trap

import mepol.cli

toys.register()
LATE = (
    *(f"mepol.commands.{name}" for name in mepol.cli.COMMANDS),
    *("mepol.finetuning.drive", "mepol.exploration.maxent.explorer", "mepol.api", "imageio_ffmpeg", "sb3_contrib"),
)
"""What commands import when they need it: here before the fork, once for all children."""


def main() -> None:
    for module in LATE:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        for kind in ("mepol", "sac", "maxent"):  # what is imported late in a run is imported now
            assert mepol.cli.main(crash.argv_of(kind, Path(folder) / kind, length=1)) == 0
    for line in sys.stdin:
        request = json.loads(line)
        answer = wait(request["wait"], request["seconds"]) if "wait" in request else {"pid": spawn(request)}
        print(json.dumps(answer), flush=True)


def wait(pid: int, seconds: float) -> dict[str, Any]:
    end = time.monotonic() + seconds
    while True:
        done, status, used = os.wait4(pid, os.WNOHANG)
        if done:
            busy = used.ru_utime + used.ru_stime
            return {"code": os.waitstatus_to_exitcode(status), "peak": used.ru_maxrss / 1024, "busy": busy}
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return {"code": None, "peak": 0.0, "busy": 0.0}
        time.sleep(0.002)


def spawn(request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and under nohup
        finish = sabotage(**request.get("sabotage", {}))
        code = mepol.cli.main(request["argv"])
        finish()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def sabotage(
    *,
    figures: bool = False,
    at: tuple[str, int, str] | None = None,
    send: int = signal.SIGKILL,
    trace: str | None = None,
    environ: dict[str, str] | None = None,
    file_size: int | None = None,
    user: int | None = None,
    clock: bool = False,
) -> Any:
    """Prepare this child's downfall; returns what is to be called when it ends by itself.

    figures: draw them at the end (slow, and not what most tests are about).
    at: (operation, n, moment): send the signal `send` to itself `before`, `after` or in the `half` of the n-th file
        operation of that kind, or of any (trap.py).  trace: file that gets the names of all operations at the end.
    file_size: bytes that a file may have, as on a disk that fills up.  user: id to become.
    clock: the wall clock goes back an hour each time it is read.
    """
    os.environ.update(environ or {})
    if not figures:
        for name in ("explore", "resume", "finetune"):
            importlib.import_module(f"mepol.commands.{name}").print_summary = lambda run: None  # type: ignore[attr-defined]
    if file_size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    if clock:
        start = time.time()
        ticks = iter(range(10**9))
        time.time = lambda: start - 3600.0 * next(ticks)
    trap = Trap(*(at or ("any", 0, "before")), send=send)
    if at is not None or trace is not None:
        trap.set()
    if user is not None:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    return lambda: trace and Path(trace).write_text(json.dumps(trap.seen))


if __name__ == "__main__":
    main()

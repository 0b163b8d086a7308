"""A process that has imported everything and forks: each child is a real `mepol` command that can be killed.

Run as a script. It reads one JSON request a line and answers each with one JSON line:

    {"argv": [...], "log": path, "sabotage": {...}}  ->  {"pid": n}
    {"wait": pid, "seconds": s}                      ->  {"code": exit code, negative for a signal, null for a hang}
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crash
import toys

import mepol.cli
import mepol.commands.explore
import mepol.commands.resume

toys.register()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        warm = crash.explore_argv(Path(folder) / "run", epochs=1)  # what is imported late is imported now
        assert mepol.cli.main(warm) == 0
    for line in sys.stdin:
        request = json.loads(line)
        answer = {"code": wait(request["wait"], request["seconds"])} if "wait" in request else {"pid": spawn(request)}
        print(json.dumps(answer), flush=True)


def wait(pid: int, seconds: float) -> int | None:
    end = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
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
        sabotage(**request.get("sabotage", {}))
        code = mepol.cli.main(request["argv"])
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
    at: tuple[str, int] | None = None,
    send: int = signal.SIGKILL,
    environ: dict[str, str] | None = None,
    file_size: int | None = None,
    user: int | None = None,
    clock: bool = False,
) -> None:
    """Prepare this child's downfall.

    figures: draw them at the end (slow, and not what most tests are about).
    at: (call, n): send the signal `send` to itself in the n-th call of `replace` (after the temporary file is
        complete, before its rename), `fsync`, `unlink` or `row` (half of the line is in the file).
    file_size: bytes that a file may have, as on a disk that fills up.  user: id to become.
    clock: the wall clock goes back an hour each time it is read.
    """
    os.environ.update(environ or {})
    if not figures:
        mepol.commands.explore.print_summary = lambda run: None
    if file_size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    if clock:
        start = time.time()
        ticks = iter(range(10**9))
        time.time = lambda: start - 3600.0 * next(ticks)
    if at is not None:
        Trap(at[1], send).set(at[0])
    if user is not None:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)


class Trap:
    """Counts calls, and springs at the n-th."""

    def __init__(self, n: int, send: int) -> None:
        self.left, self.send = n, send

    def set(self, call: str) -> None:
        if call == "row":
            plain = Path.open
            Path.open = lambda path, mode="r", **rest: self.torn(path, mode, plain(path, mode, **rest))
            return
        owner, name = {"replace": (Path, "replace"), "unlink": (Path, "unlink"), "fsync": (os, "fsync")}[call]
        setattr(owner, name, self.before(getattr(owner, name)))

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def trapped(*arguments: Any, **named: Any) -> Any:
            self.step()
            return function(*arguments, **named)

        return trapped

    def torn(self, path: Path, mode: str, file: Any) -> Any:
        if path.name != "metrics.csv" or "+" not in mode:
            return file
        write = file.write

        def half(text: str) -> int:
            if self.left == 1:
                write(text[: len(text) // 2])
                file.flush()
            self.step()
            return write(text)

        file.write = half
        return file

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.send)
            if self.send != signal.SIGSTOP:
                time.sleep(30)  # until the signal is heard: it may reach another thread first


if __name__ == "__main__":
    main()

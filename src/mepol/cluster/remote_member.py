"""One member of a sweep as a Ray task: what happens on the node that works on it, and where it reports to."""

from __future__ import annotations

import _thread
import asyncio
import os
import signal
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mepol.cluster.parcels import Outbox, Parcel, unpack
from mepol.errors import RunError
from mepol.exploration.member import stoppable, work_on
from mepol.runs.callbacks import Progress
from mepol.runs.checkpoint import versions
from mepol.runs.directory import RunDirectory
from mepol.runs.lock import hold

EVERY = 1.0  # seconds between two posts, at least
RELEASE = 60.0  # seconds that the lock of a lost worker may outlive it

Post = tuple[str, int, str, Parcel]
"""Name of the member, which attempt at it this is, a line for its log, and what has changed in its directory."""


class Mailbox:
    """The actor beside the driver that members report to, and that tells them to stop."""

    def __init__(self) -> None:
        self._posts: list[Post] = []
        self._stop = asyncio.Event()

    async def post(self, post: Post) -> None:
        """Leave a post."""
        self._posts.append(post)

    async def take(self) -> list[Post]:
        """All posts since the last time."""
        posts, self._posts = self._posts, []
        return posts

    async def stop(self) -> None:
        """Tell every member to stop."""
        self._stop.set()

    async def stopped(self) -> None:
        """Returns when members are to stop."""
        await self._stop.wait()


@dataclass(frozen=True)
class Assignment:
    """What a node is told.

    place: the run directory, on a path that all nodes see; None: anywhere, and it is sent to and fro.
    parcel: what there is of it so far, where it is sent. versions, modules: of the driver.
    """

    name: str
    attempt: int
    settings: str
    place: str | None
    parcel: Parcel
    versions: dict[str, str]
    modules: str


def work(mailbox: Any, told: Assignment) -> tuple[int, str]:
    """Work on a member to its end; the exit code, and the sentence that says why it failed.

    130: it was told to stop. Whatever the end, what it has written is with the driver before this returns.
    """
    import ray

    if other := [f"{n} {v}, not {versions().get(n)}" for n, v in told.versions.items() if versions().get(n) != v]:
        return 1, f"{_node()} does not have the driver's {other[0]}: digits would differ; install the same on all nodes"
    os.environ["MEPOL_MODULES"] = told.modules
    with tempfile.TemporaryDirectory(prefix="mepol-", ignore_cleanup_errors=True) as anywhere:
        path = Path(told.place or anywhere) / ("" if told.place else told.name)
        poster = Poster(ray, mailbox, told, path)
        unpack(told.parcel, path) if told.parcel else None
        poster.outbox.changes()  # the driver has these
        poster.post(f"{'resumed' if (path / 'config.json').exists() else 'begun'} on {_node()}")
        try:
            with stoppable():
                _listen(ray, mailbox)
                _released(path)
                fault = work_on(path, told.settings, poster.report)
        except SystemExit as stop:
            poster.post("stopped")
            return 130, f"told to stop ({stop.code})"
        poster.post(f"mepol: {fault}" if fault else f"finished on {_node()}", finished=not fault)
        return (1, fault) if fault else (0, "")


class Poster:
    """Tells the driver how a member stands, and sends what is new in its directory where that is not shared."""

    def __init__(self, ray: Any, mailbox: Any, told: Assignment, path: Path) -> None:
        self._ray, self._mailbox, self._told = ray, mailbox, told
        self.outbox = Outbox(path)
        self._last = 0.0

    def report(self, progress: Progress) -> None:
        """After each epoch; what came within a second of the last time is sent with the next."""
        if self._told.place is None and time.monotonic() - self._last >= EVERY and progress.turn < progress.length:
            self.post(f"epoch {progress.turn}/{progress.length}")

    def post(self, line: str, *, finished: bool = False) -> None:
        """Returns when the mailbox has it."""
        parcel = self.outbox.changes(finished=finished) if self._told.place is None else ()
        self._ray.get(self._mailbox.post.remote((self._told.name, self._told.attempt, line, parcel)))
        self._last = time.monotonic()


_listening: set[str] = set()
"""Mailboxes that this process listens to: it may work on one member after the other."""


def _listen(ray: Any, mailbox: Any) -> None:
    """From now on the word to stop, or the end of who could say it, interrupts the main thread."""
    if (name := repr(mailbox)) in _listening:
        return
    _listening.add(name)

    def wait() -> None:
        with suppress(ray.exceptions.RayError):
            ray.get(mailbox.stopped.remote())
        _thread.interrupt_main(signal.SIGINT)  # Ray's workers are deaf to one from the system

    threading.Thread(target=wait, daemon=True).start()


def _released(path: Path) -> None:
    """Wait until nobody holds the directory: a worker that is thought lost may need a moment to end."""
    until = time.monotonic() + RELEASE
    while path.is_dir() and time.monotonic() < until:
        try:
            with hold(path):
                return
        except RunError:
            time.sleep(0.2)


def is_finished(path: Path) -> bool:
    """Whether the run in `path` has reached its end."""
    try:
        return RunDirectory.open(path).is_finished
    except (RunError, OSError):
        return False


def _node() -> str:
    import ray

    return f"node {ray.get_runtime_context().get_node_id()[:8]}"

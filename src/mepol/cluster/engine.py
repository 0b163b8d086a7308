"""The engine of a Ray cluster: each member of a sweep is a task, which goes on elsewhere when its node is lost."""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from mepol.cluster.connection import connected
from mepol.cluster.parcels import pack, unpack
from mepol.cluster.remote_member import Assignment, Mailbox, is_finished, work
from mepol.errors import ConfigError
from mepol.exploration.study import Member
from mepol.exploration.sweep import log_path
from mepol.runs.checkpoint import versions
from mepol.runs.files import Door
from mepol.runs.lock import hold
from mepol.runs.text import plain
from mepol.settings import to_json

Storage = Literal["pull", "shared"]
LOSSES = 5  # of one member's workers, before it counts as failed
FAREWELL = 60.0  # seconds that members have to write their checkpoints


class RayEngine:
    """Members as tasks of a cluster (see `exploration.sweep.Engine`).

    storage: `pull` sends what a member writes to the driver as it is written, about once a second; with `shared` the
    members' directories are on a path that all nodes see.
    """

    def __init__(self, address: str | None = None, storage: Storage = "pull") -> None:
        self._address, self._storage = address, storage
        self._stack = ExitStack()
        self._held: dict[str, ExitStack] = {}
        self._members: dict[str, Member] = {}
        self._tasks: dict[str, Any] = {}
        self._running: set[str] = set()
        self._lost = Counter[str]()

    def __enter__(self) -> RayEngine:
        self._ray = ray = self._stack.enter_context(connected(self._address))
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        mailbox = ray.remote(Mailbox).options(num_cpus=0, max_concurrency=100_000, scheduling_strategy=here)
        self._mailbox = mailbox.remote()
        self._stack.callback(ray.kill, self._mailbox)
        self._work = ray.remote(work)  # a process takes one after the other: to start one costs seconds
        return self

    def __exit__(self, *_: object) -> None:
        """Members are told to stop, and have a minute to write their checkpoints."""
        ray = self._ray
        with self._stack:
            if self._tasks:
                ray.get(self._mailbox.stop.remote())
                for name in set(self._tasks) - self._running:
                    ray.cancel(self._tasks[name])
                until = time.monotonic() + FAREWELL
                while self._tasks and time.monotonic() < until:
                    self.ended(again=False)
                for task in self._tasks.values():
                    ray.cancel(task, force=True)
            for held in self._held.values():
                held.close()

    def start(self, member: Member) -> None:
        """A task with as many CPUs as the member has threads."""
        threads = member.config.machine.threads or 1
        most = max((node["Resources"].get("CPU", 0) for node in self._ray.nodes() if node["Alive"]), default=0)
        if threads > most:
            raise ConfigError(f"threads = {threads} is not possible: no node has more than {most:g} CPUs")
        self._members[member.name] = member
        shared = self._storage == "shared"
        if not shared:
            self._hold(member)
        told = Assignment(
            member.name,
            self._lost[member.name],
            to_json(member.config),
            str(member.path.absolute()) if shared else None,
            () if shared else pack(member.path),
            versions(),
            os.environ.get("MEPOL_MODULES", ""),
        )
        # Ray does not retry: it would send the same parcel again.
        task = self._work.options(num_cpus=threads, max_retries=0, scheduling_strategy="SPREAD")
        self._tasks[member.name] = task.remote(self._mailbox, told)

    def ended(self, *, again: bool = True) -> dict[str, int]:
        """Exit codes of the members that have ended; waits for one, and a second at most.

        again: whether one whose worker was lost goes on elsewhere.
        """
        ray = self._ray
        ready, _ = ray.wait(list(self._tasks.values()), num_returns=1, timeout=1.0)
        self._read_posts()
        codes = {}
        for name in [name for name, task in self._tasks.items() if task in ready]:
            code = self._code(name)
            if code is None and again:
                self.start(self._members[name])
            else:
                codes[name] = 1 if code is None else code
                del self._tasks[name]
                self._running.discard(name)
                if name in self._held:
                    self._held.pop(name).close()
        return codes

    def is_running(self, name: str) -> bool:
        """Whether its node has said so."""
        return name in self._running

    def _code(self, name: str) -> int | None:
        """How a task ended; None where its worker was lost, and another may go on."""
        ray, member = self._ray, self._members[name]
        try:
            return int(ray.get(self._tasks[name])[0])
        except ray.exceptions.TaskCancelledError:
            return 130
        except ray.exceptions.RayError as fault:
            if is_finished(member.path):  # all but the word of it arrived
                return 0
            why, broken = str(fault).strip().splitlines()[-1], isinstance(fault, ray.exceptions.RayTaskError)
        self._lost[name] += 1
        if broken or self._lost[name] > LOSSES:
            self._note(member, f"mepol: its worker {'failed' if broken else 'was lost too often'}: {plain(why)}")
            return 1
        self._note(member, f"lost: {plain(why.partition('. ')[0])}")
        self._running.discard(name)
        return None

    def _read_posts(self) -> None:
        for name, attempt, line, parcel in self._ray.get(self._mailbox.take.remote()):
            member = self._members[name]
            if attempt != self._lost[name]:  # of a worker that is thought lost: another goes on in its place
                continue
            self._running.add(name)
            if parcel:
                unpack(parcel, member.path)
                self._hold(member)
            self._note(member, line)

    def _hold(self, member: Member) -> None:
        """Hold the directory that we write for a node, once there is one."""
        if member.name not in self._held and (member.path / "config.json").exists():
            self._held[member.name] = ExitStack()
            self._held[member.name].enter_context(hold(member.path))

    def _note(self, member: Member, line: str) -> None:
        log = Path("logs") / log_path(member).name
        handle = Door(member.path.parent, "; choose another --out").open_log(log.as_posix())
        with os.fdopen(handle, "a") as file:
            file.write(f"{line}\n")

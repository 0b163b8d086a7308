"""Some Ray actors that work on the pieces of one thing. A lost one is replaced, and its piece worked on again."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Any

from mepol.errors import ConfigError, EnvironmentFault, MepolError, MepolWarning, RunError

LOSSES = 3  # of the worker of one piece, before it is given up
GRACE = 5.0  # seconds beyond a time limit for what lies between a worker and us
ROOM = 600.0  # seconds that a worker may wait for a place on the cluster, and for its first word


class Worker:
    """The actor: it says at once that it is here, then every `beat` seconds (0: never), then what came out."""

    def work(self, function: Callable[[Any, Any], Any], shared: Any, piece: Any, beat: float) -> Generator[Any]:
        """function(shared, piece), which may be a generator that yields as it goes on."""
        yield None
        made = function(shared, piece)
        if isinstance(made, Generator):
            said = time.monotonic()
            while True:
                try:
                    next(made)
                except StopIteration as end:
                    made = end.value
                    break
                if beat and time.monotonic() - said >= beat:
                    said = time.monotonic()
                    yield None
        yield (made,)


class Crew:
    """`size` actors with a CPU each, spread over the nodes. The work that they are given decides the result alone."""

    def __init__(self, ray: Any, size: int) -> None:
        cores = int(ray.cluster_resources().get("CPU", 0))
        if not 1 <= size <= cores:
            raise ConfigError(f"workers = {size} is not possible: it must be from 1 to the cluster's {cores} CPUs")
        self._ray, self.size = ray, size
        self.workers = [self._hire(1) for _ in range(size)]

    def dismiss(self) -> None:
        """End all actors."""
        for worker in self.workers:
            self._ray.kill(worker)

    def map(
        self,
        function: Callable[[Any, Any], Any],
        shared: Any,
        pieces: Sequence[Any],
        time_limit: float = 0.0,
    ) -> list[Any]:
        """function(shared, piece) of each piece, in their order; `shared` is sent to each node once.

        time_limit: seconds between two yields of `function` (0: no limit). What it raises is raised here.
        """
        sent = self._ray.put(shared)
        found: list[Any] = []
        for start in range(0, len(pieces), self.size):
            found += self._round(function, sent, pieces[start : start + self.size], time_limit)
        return found

    def _round(self, function: Callable[[Any, Any], Any], sent: Any, pieces: Sequence[Any], limit: float) -> list[Any]:
        """A piece for each worker, or for some of them."""
        ray, results, lost = self._ray, {}, Counter[int]()
        beat = min(1.0, limit / 4)

        def give(i: int) -> Any:
            until[i] = time.monotonic() + ROOM
            task = self.workers[i].work.options(num_returns="streaming")
            return task.remote(function, sent, pieces[i], beat)

        def again(i: int, why: str) -> Any:
            lost[i] += 1
            ray.kill(self.workers[i])
            if lost[i] > LOSSES:
                raise RunError(f"the worker of piece {i + 1} of {len(pieces)} was lost {lost[i]} times: {why}")
            warnings.warn(f"a worker was lost and is replaced: {why}", MepolWarning, stacklevel=4)
            free = ray.available_resources().get("CPU", 0.0) >= 1  # a lost node's work shares the CPUs that are left
            self.workers[i] = self._hire(1 if free else 0)
            return give(i)

        until: dict[int, float] = {}
        tasks = {i: give(i) for i in range(len(pieces))}
        while tasks:
            ready, _ = ray.wait(list(tasks.values()), timeout=1.0)
            for i, task in list(tasks.items()):
                try:
                    if task in ready:
                        word = ray.get(next(task))
                        until[i] = time.monotonic() + limit + GRACE if limit else float("inf")
                        if word is not None:
                            results[i] = word[0]
                            del tasks[i]
                    elif time.monotonic() > until[i]:
                        if lost[i]:
                            raise EnvironmentFault(f"a worker took longer than the time limit of {limit:g} s, twice")
                        tasks[i] = again(i, f"nothing was heard of it for {limit or ROOM:g} s")
                except ray.exceptions.RayTaskError as fault:
                    raise _told(fault) from fault
                except ray.exceptions.RayError as fault:
                    tasks[i] = again(i, str(fault).strip().split("\n")[0])
        return [results[i] for i in range(len(pieces))]

    def _hire(self, cpus: int) -> Any:
        return self._ray.remote(Worker).options(num_cpus=cpus, max_restarts=0, scheduling_strategy="SPREAD").remote()


def _told(fault: Any) -> MepolError:
    """What a worker raised, as an error of ours."""
    cause = fault.cause
    return cause if isinstance(cause, MepolError) else RunError(f"a worker failed: {str(cause).partition(chr(10))[0]}")

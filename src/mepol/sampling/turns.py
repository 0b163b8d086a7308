"""Many loops on a few threads: whoever is free runs one turn of the loop that has waited longest."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from threading import Event
from typing import TypeVar

from mepol.neighbours.threads import workers

R = TypeVar("R")


def run_through(work: Generator[object, None, R]) -> R:
    """What `work` returns at its end; what it yields on its way is for those who watch it."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: R = end.value
            return result


def take_turns(loops: Iterable[Iterator[None]], threads: int) -> None:
    """Run every loop to its end; a turn goes from one `yield` to the next.

    The calling thread works too. No loop is ever in two hands, and none waits for another while a thread is free.
    What a loop raises is raised here; it, like Ctrl-C, ends the other loops after their present turn.
    """
    waiting, stop = deque(loops), Event()

    def work() -> None:
        while not stop.is_set():
            try:
                loop = waiting.popleft()  # atomic
            except IndexError:  # the last ones are in other hands
                return
            try:
                for _ in loop:
                    waiting.append(loop)
                    break
            except BaseException:
                stop.set()
                raise

    with workers(threads, "mepol-turns") as pool:  # it starts a thread for each `submit` alone
        helpers = [pool.submit(work) for _ in range(threads - 1)]
        try:
            work()
            for helper in helpers:
                helper.result()
        finally:
            stop.set()

"""How many threads torch computes on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """`count` threads for torch's own products, and then as many as before.

    The number belongs to the process. Threads that compute at once are therefore to be started within this context.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def workers(count: int, name: str = "") -> ThreadPoolExecutor:
    """`count` threads, each of which computes on as many of torch's own as the process was told.

    OpenMP keeps that number thread by thread. In a new one torch sets it when it is first asked for it, and its linear
    layers do not ask: they would use every core, and round otherwise.
    """
    return ThreadPoolExecutor(count, name, initializer=torch.get_num_threads)

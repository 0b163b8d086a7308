"""Who works on the pieces of a search: threads of this process, or a pool of others."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from mepol.neighbours.threads import torch_threads, workers

S = TypeVar("S")
R = TypeVar("R")


class Pool(Protocol):
    """Works on pieces of one thing, wherever that is."""

    @property
    def size(self) -> int:
        """Pieces that it works on at a time."""
        ...

    def map(self, function: Callable[[Any, slice], R], shared: Any, pieces: Sequence[slice]) -> list[R]:
        """function(shared, piece) of each piece, in their order; function and arguments can be pickled."""
        ...


class Threads:
    """A pool of threads of this process; torch's products take one each."""

    def __init__(self, count: int) -> None:
        """count: of threads, -1 for one per core."""
        self.size = count if count > 0 else os.cpu_count() or 1

    def map(self, function: Callable[[S, slice], R], shared: S, pieces: Sequence[slice]) -> list[R]:
        """function(shared, piece) of each piece, in their order."""
        with torch_threads(1), workers(self.size) as pool:
            return list(pool.map(lambda piece: function(shared, piece), pieces))


def pieces_of(n: int, count: int) -> list[slice]:
    """0 .. n in `count` pieces of nearly one size, fewer where n is smaller."""
    count = min(count, n)
    return [slice(n * i // count, n * (i + 1) // count) for i in range(count)]

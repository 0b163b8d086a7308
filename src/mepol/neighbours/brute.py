"""Nearest neighbours by all distances, a block of particles at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

# Brute force looks at a block of particles at a time: few enough for its scores to stay near the processor, and not
# fewer than make a product worth its while.
BLOCK_BYTES = 4 * 2**20
BLOCK_ROWS = 32
GROUP = 32  # scores of which the least is looked at first


@dataclass(frozen=True)
class Brute:
    """Every distance, by blocked matrix products; those that may be among the least are computed without cancellation.

    A product gives |y|^2 - 2xy of a particle x and all particles y, which orders them by distance up to its rounding.
    The products decide alone who is looked at more closely, and with a margin: how they round, and so on how many
    threads or in which blocks, cannot be seen in the result.

    points: (N, D). left: (N, D+1). right: (D+1, width). margin: (N,), of the scores. groups: that a row of scores is
    cut into, each every so far.
    """

    points: NDArray[np.float64]
    k: int
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    margin: NDArray[np.float64]
    groups: int

    @staticmethod
    def over(points: NDArray[np.float64], k: int) -> Brute:
        """For the k nearest of each of (N, D) `points`."""
        n, dim = points.shape
        groups = -(-n // max(1, min(GROUP, n // (4 * (k + 1)))))
        width = -(-n // groups) * groups
        centred = points - points.mean(axis=0)
        square = np.einsum("nd,nd->n", centred, centred)
        # Of the product, the centring and the distance itself; there are two sides to a comparison.
        margin = 2 * 4 * (dim + 4) * np.finfo(np.float64).eps * (square + square.max())
        right = np.zeros((width, dim + 1))
        right[:n, :dim], right[:n, dim], right[n:, dim] = -2.0 * centred, square, np.inf
        return Brute(points, k, np.column_stack([centred, np.ones(n)]), right, margin, groups)

    def blocks(self, rows: slice) -> list[slice]:
        """`rows` in blocks whose scores stay near the processor."""
        step = max(BLOCK_ROWS, BLOCK_BYTES // (8 * len(self.right)))
        return [slice(start, min(start + step, rows.stop)) for start in range(rows.start, rows.stop, step)]

    def search_in_blocks(self, rows: slice) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Index and distance (R, K+1) of the nearest of many `rows`, block after block."""
        index, distance = zip(*(self.search(block) for block in self.blocks(rows)), strict=True)
        return np.concatenate(index), np.concatenate(distance)

    def search(self, block: slice) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Index and distance (B, K+1) of the nearest of a block of particles, themselves among them."""
        width, k = len(self.right), self.k
        left, every = torch.from_numpy(self.left[block]), torch.from_numpy(self.right).T
        score = torch.mm(left, every).numpy().reshape(-1, width // self.groups, self.groups)
        least = score.min(axis=1)  # (B, groups)
        reach = np.partition(least, k, axis=1)[:, k] + self.margin[block]  # k + 1 are within it: nobody is beyond
        row, group = np.nonzero(least <= reach[:, None])
        which, place = np.nonzero(score[row, :, group] <= reach[row, None])
        row, near = row[which], place * self.groups + group[which]
        return _nearest(self.points, block.start + row, near, len(least), k + 1)


def _nearest(
    points: NDArray[np.float64], query: NDArray[np.int64], near: NDArray[np.int64], rows: int, count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of pairs (P,) of a particle and one near it, the `count` nearest of each of the `rows` particles, in order.

    Of two at one distance the one with the lower number comes first. Returns index and distance (rows, count).
    """
    part = max(1, BLOCK_BYTES // (8 * points.shape[1]))
    square = np.empty(len(query))
    for start in range(0, len(query), part):
        here = slice(start, start + part)
        gap = points[near[here]] - points[query[here]]
        square[here] = np.einsum("pd,pd->p", gap, gap)
    order = np.lexsort((near, square, query))
    firsts = np.searchsorted(query[order], query[0] + np.arange(rows))
    chosen = order[firsts[:, None] + np.arange(count)]
    return near[chosen], np.sqrt(square[chosen])

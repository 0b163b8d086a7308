"""How much of what can be reached was reached, where the reachable set is known.

An environment that knows its reachable set says so by a method `reachable(axes)`: (P, 2) values of the two state
coordinates `axes`, dense enough that every cell it can reach holds one of them; or None for axes it cannot tell.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mepol.evaluate.visits import Grid, cells_of


def reachable_cells(env: VectorEnv[Any, Any, Any], grid: Grid) -> NDArray[np.bool_] | None:
    """(bins_0, bins_1) which cells of `grid` can be reached, or None where nobody knows."""
    ask = getattr(env.unwrapped, "reachable", None)
    points = ask(grid.axes) if callable(ask) else None
    if points is None:
        return None
    mask = np.zeros(grid.bins, dtype=bool)
    cell = cells_of(np.asarray(points, dtype=np.float64), grid)
    mask[cell[:, 0], cell[:, 1]] = True
    return mask


def coverage(visits: NDArray[np.int64], reachable: NDArray[np.bool_]) -> float:
    """Share of the reachable cells that were visited, in [0, 1]."""
    return float(np.count_nonzero(visits[reachable]) / max(int(reachable.sum()), 1))

"""How much of what can be reached was reached, where the reachable set is known.

An environment that knows its reachable set says so by a method `reachable(axes)`: (P, 2) values of the two state
coordinates `axes`, dense enough that every cell it can reach holds one of them; or None for axes it cannot tell.
What geometry alone tells of the others is here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mepol.envs.contract import check_observations, guard
from mepol.envs.coordinates import Grid, cells_of, is_inside
from mepol.envs.gridworld import free_points


def reachable_cells(env: VectorEnv[Any, Any, Any], grid: Grid, *, absorb: bool = True) -> NDArray[np.bool_] | None:
    """(bins_0, bins_1) which cells of `grid` can be reached, or None where nobody knows.

    absorb: whether what lies outside the grid counts in its outer cells, as visits do.
    """
    if grid.line:
        return None
    known = GEOMETRY.get(env.spec.id) if env.spec is not None else None
    ask = getattr(env.unwrapped, "reachable", known)
    with guard("reachable"):
        points = ask(grid.axes) if callable(ask) else None
    if points is None:
        return None
    points = check_observations(points, (len(points), 2), "reachable")
    mask = np.zeros(grid.bins, dtype=bool)
    cell = cells_of(points if absorb else points[is_inside(points, grid)], grid)
    mask[cell[:, 0], cell[:, 1]] = True
    return mask


def coverage(visits: NDArray[np.int64], reachable: NDArray[np.bool_]) -> float:
    """Share of the reachable cells that were visited, in [0, 1]."""
    return float(np.count_nonzero(visits[reachable]) / max(int(reachable.sum()), 1))


# --- Geometry -----------------------------------------------------------------------------------------------------


def planes(axes: tuple[int, int]) -> NDArray[np.float64]:
    """(P, 2) of GridWorld200: the four rooms for two axes of one plane; for axes of two planes their whole square."""
    rooms = free_points()
    if axes[0] // 2 == axes[1] // 2:
        return rooms[:, [axis % 2 for axis in axes]]
    along = np.unique(rooms[:, 0])  # no wall reaches from side to side, so a coordinate alone can be anything
    return np.stack(np.meshgrid(along, along, indexing="ij"), axis=-1).reshape(-1, 2)


GEOMETRY: dict[str, Callable[[tuple[int, int]], NDArray[np.float64] | None]] = {
    "mepol/GridWorld200-v0": planes,
}

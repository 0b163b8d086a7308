"""GridWorld's walls and slopes by name: what its worlds differ in.

Every layout leaves the start, the lower left corner [-6, -4]^2, free, and each of its free points can be reached from
there by moves that are shorter than its gaps are wide. A slope is a drift of every move that begins where it is.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from mepol.errors import EnvironmentFault

STEEP = 0.25
"""Drift of a slope, by default: this share of the largest move along an axis."""

# Solid boxes (x0, y0, x1, y1), borders included.
LAYOUTS: dict[str, NDArray[np.float64]] = {
    name: np.array(boxes, dtype=np.float64).reshape(-1, 4)
    for name, boxes in {
        # The paper's four rooms: the centre cross and the four stubs on the outer walls.
        "rooms": [
            (-1.25, -2.5, 1.25, 2.5),
            (-2.5, -1.25, 2.5, 1.25),
            (3.5, -1.25, 6.0, 1.25),
            (-6.0, -1.25, -3.5, 1.25),
            (-1.25, 3.5, 1.25, 6.0),
            (-1.25, -6.0, 1.25, -3.5),
        ],
        "open": [],
        "block": [(-2.5, -2.5, 2.5, 2.5)],
        "bars": [(-6.0, -2.5, 3.5, -1.5), (-3.5, 1.5, 6.0, 2.5)],  # a serpentine from the bottom to the top
        "columns": [(-2.5, -6.0, -1.5, 3.5), (1.5, -3.5, 2.5, 6.0)],  # the same from left to right
    }.items()
}
"""Walls by the name of their layout."""

SLOPES: dict[str, tuple[int, int]] = {
    "flat": (0, 0),
    "north": (0, 1),
    "south": (0, -1),
    "east": (1, 0),
    "west": (-1, 0),
}
"""Direction (x, y) of the drift by the side that the slope faces, which is where it leads down to."""

SLOPING = {"everywhere": np.inf, "left": 0.0}
"""Which part of the plane slopes, by name: the points whose x is at most this. The start is on the left."""


def walls_of(layout: str) -> NDArray[np.float64]:
    """(W, 4) solid boxes of the layout called so."""
    return LAYOUTS[_known("layout", layout, LAYOUTS)]


def drift_of(slope: str, steepness: float, max_move: float) -> NDArray[np.float64]:
    """(2,) drift of the slope called so: `steepness` is its share of the largest move."""
    if not 0 <= steepness < 1:
        raise EnvironmentFault(f"steepness = {steepness:g} is not possible: from 0 to below 1, or no move leads up")
    return np.array(SLOPES[_known("slope", slope, SLOPES)]) * (steepness * max_move)


def sloping_up_to(sloping: str) -> float:
    """The x up to which the part of the plane called so slopes."""
    return SLOPING[_known("sloping", sloping, SLOPING)]


def _known(name: str, value: str, table: Collection[str]) -> str:
    if value not in table:
        raise EnvironmentFault(f"{name} = {value!r} is not possible: it must be one of {', '.join(table)}")
    return value

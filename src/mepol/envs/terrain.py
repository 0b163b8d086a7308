"""GridWorld's walls and slopes by name: what its worlds differ in.

Every layout leaves the start, the lower left corner [-6, -4]^2, free, and each of its free points can be reached from
there by moves that are shorter than its gaps are wide. A slope is a drift that every move suffers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mepol.errors import EnvironmentFault

STEEP = 0.05
"""Drift of a slope: a quarter of the largest move along an axis."""

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

SLOPES: dict[str, tuple[float, float]] = {
    "flat": (0.0, 0.0),
    "north": (0.0, STEEP),
    "south": (0.0, -STEEP),
    "east": (STEEP, 0.0),
    "west": (-STEEP, 0.0),
}
"""Drift (x, y) of every move by the side that the slope faces, which is where it leads down to."""


def walls_of(layout: str) -> NDArray[np.float64]:
    """(W, 4) solid boxes of the layout called so."""
    if layout not in LAYOUTS:
        raise EnvironmentFault(f"layout = {layout!r} is not possible: it must be one of {', '.join(LAYOUTS)}")
    return LAYOUTS[layout]


def drift_of(slope: str) -> NDArray[np.float64]:
    """(2,) drift of the slope called so."""
    if slope not in SLOPES:
        raise EnvironmentFault(f"slope = {slope!r} is not possible: it must be one of {', '.join(SLOPES)}")
    return np.array(SLOPES[slope])

"""Observations of finitely many values: which columns hold them, and how many states there are in all.

A `Discrete` part is as many columns as it has values, one of them 1 (one-hot); whole numbers and truth values are a
column each. Where every part is finite and the states are not too many, states are counted instead of measured by
distances (layout.py): two of them are one place or two, and nothing lies between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

MOST_PLACES = 10_000  # states that are counted, about as many as a batch has: of more, most would be seen once


class Leaf(NamedTuple):
    """Columns of an observation that hold one thing."""

    columns: int
    values: int
    """How many values it has; 0 where it is of real numbers."""

    @property
    def one_hot(self) -> bool:
        """Whether one of the columns is 1 and the others are 0."""
        return self.values > 0 and self.columns > 1


def leaves_of(env: Any, space: Box) -> tuple[Leaf, ...]:
    """The leaves of a batch's observations (S,) in `space`: as what flattened them says (spaces.py), or by type."""
    single = (getattr(getattr(env, "unwrapped", env), "envs", None) or [None])[0]
    if isinstance(single, gymnasium.Env) and single.has_wrapper_attr("observation_leaves"):
        found: tuple[Leaf, ...] = single.get_wrapper_attr("observation_leaves")
        return found
    return leaves_in(space)


def leaves_in(box: Box) -> tuple[Leaf, ...]:
    """The leaves of a Box of any shape: real numbers together, each whole number or truth value by itself."""
    kind, size = np.dtype(box.dtype).kind, math.prod(box.shape)
    if kind == "f":
        return (Leaf(size, 0),)
    ends = zip(box.low.ravel().tolist(), box.high.ravel().tolist(), strict=True)
    return tuple(Leaf(1, int(high) - int(low) + 1) for low, high in ends)


def places_in(leaves: Sequence[Leaf]) -> int | None:
    """How many states there are; None where they are not finite, or more than are counted."""
    count = math.prod(leaf.values for leaf in leaves)
    return count if 0 < count <= MOST_PLACES else None


def column_mask(leaves: Sequence[Leaf], marked: Sequence[bool]) -> NDArray[np.bool_]:
    """(S,) which columns belong to the leaves that are `marked`."""
    return np.repeat(np.asarray(marked, dtype=bool), [leaf.columns for leaf in leaves])

"""What a little random play shows of an environment that nobody described: what moves, how far, together with what.

Each finding is a plain array or a pair of numbers; what is made of them is said in notes, one sentence each, so that a
user can disagree with every one of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

Floats = NDArray[np.float64]

COPY = 1e-7  # share of a coordinate's spread that may be left when another one explains it
CIRCLE = 1e-5  # by which the squares of a cosine and a sine may miss 1, or those of a quaternion
UNEVEN = 30.0  # ratio of spreads from which on distances are measured in units of each
RESOLUTION = 1e-4  # of a coordinate's spread: states that are nearer to each other are one place
ROOM = 4.0  # times the range of random play, that a heatmap of an unbounded coordinate shows
MOST_PAIRS = 64  # coordinates that are looked through for cosines and sines
SAMPLE = 2000  # states that the dimension is estimated on
NEAR = 10  # neighbours that it is estimated with


@dataclass(frozen=True, eq=False)
class Survey:
    """States of M short trajectories of random play, and what they show of each of the S coordinates."""

    states: Floats
    """(M, T+1, S)."""

    @property
    def size(self) -> int:
        """Steps that were played."""
        return int(self.states.shape[0] * (self.states.shape[1] - 1))

    @property
    def flat(self) -> Floats:
        """(M (T+1), S) all states."""
        return self.states.reshape(-1, self.states.shape[-1])

    @property
    def low(self) -> Floats:
        """(S,) least value of each coordinate."""
        return np.asarray(self.flat.min(axis=0))

    @property
    def high(self) -> Floats:
        """(S,) largest value of each."""
        return np.asarray(self.flat.max(axis=0))

    @property
    def spread(self) -> Floats:
        """(S,) standard deviation of each."""
        return np.asarray(self.flat.std(axis=0))

    @property
    def constant(self) -> NDArray[np.bool_]:
        """(S,) which never changed at all."""
        return np.asarray(self.low == self.high)

    @property
    def fixed(self) -> NDArray[np.bool_]:
        """(S,) which change from one start to the next and never within a trajectory: no action moves them."""
        still = (self.states.max(axis=1) == self.states.min(axis=1)).all(axis=0)
        return np.asarray(still & ~self.constant)

    @property
    def reach(self) -> Floats:
        """(S,) range of each in units of its usual move within a step: how many moves lie between its ends."""
        move = np.abs(np.diff(self.states, axis=1)).mean(axis=(0, 1))
        moving = (move > 0) & ~self.constant
        return np.where(moving, (self.high - self.low) / np.where(moving, move, 1.0), 0.0)

    def copies(self, among: Sequence[int]) -> dict[int, int]:
        """Coordinates that are a straight function of an earlier one of `among`, and which one."""
        centred = self.flat[:, list(among)] - self.flat[:, list(among)].mean(axis=0)
        unit = centred / np.linalg.norm(centred, axis=0)
        alike = np.abs(unit.T @ unit) >= 1.0 - COPY
        found: dict[int, int] = {}
        for j in range(1, len(among)):
            first = next((i for i in range(j) if alike[i, j] and among[i] not in found), None)
            if first is not None:
                found[among[j]] = among[first]
        return found

    def angles(self, among: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Pairs of `among` that are the cosine and the sine of one angle, as far as random play can tell."""
        able = [i for i in among if max(-self.low[i], self.high[i]) <= 1.0 + CIRCLE][:MOST_PAIRS]
        square = self.flat[:, able] ** 2
        pairs: list[tuple[int, int]] = []
        for i, j in itertools.combinations(range(len(able)), 2):
            free = not {able[i], able[j]} & set(itertools.chain(*pairs))
            if free and np.abs(square[:, i] + square[:, j] - 1.0).max() <= CIRCLE:
                pairs.append((able[i], able[j]))
        return tuple(pairs)

    def quaternions(self, among: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Four neighbouring coordinates of `among` whose squares sum to 1: an orientation, of three dimensions."""
        rows = [tuple(among[i : i + 4]) for i in range(len(among) - 3)]
        square = self.flat**2
        return tuple(q for q in rows if np.abs(square[:, list(q)].sum(axis=1) - 1.0).max() <= CIRCLE)

    def dimension(self, points: Floats) -> float:
        """Dimensions that features (M, T+1, D) of the states really have, by the distances of near ones.

        The maximum-likelihood estimate of Levina and Bickel (2004), with neighbours of other trajectories alone: those
        of the same one lie along a path. In many dimensions it falls short of the truth; up to five it is good.
        """
        m, t, d = points.shape
        flat = points.reshape(-1, d)
        flat = flat / np.where(flat.std(axis=0) > 0, flat.std(axis=0), 1.0)
        of = np.repeat(np.arange(m), t)
        chosen = np.linspace(0, len(flat) - 1, min(len(flat), SAMPLE)).astype(int)
        flat, of = flat[chosen], of[chosen]
        inverse: list[float] = []
        for one in range(m):
            others, mine = flat[of != one], flat[of == one]
            if len(others) <= NEAR or not len(mine):
                continue
            distance = np.asarray(KDTree(others).query(mine, k=NEAR)[0])
            good = distance[:, 0] > 0
            inverse += np.log(distance[good, -1:] / distance[good, :-1]).mean(axis=1).tolist()
        return 1.0 / float(np.mean(inverse)) if inverse and np.mean(inverse) > 0 else float(d)


@dataclass(frozen=True)
class Proposal:
    """What a survey says the entropy should be taken of, and in which units."""

    features: tuple[int | tuple[int, int], ...]
    """Coordinates, and pairs that are the cosine and the sine of an angle."""
    notes: tuple[str, ...]
    """Why, one sentence each."""


def propose_features(survey: Survey, names: Sequence[str]) -> Proposal:
    """Every coordinate that moves and says something new; cosine and sine of one angle as that angle."""
    dims = range(len(names))
    constant = [i for i in dims if survey.constant[i]]
    fixed = [i for i in dims if survey.fixed[i]]
    left = [i for i in dims if i not in {*constant, *fixed}]
    if not left:
        return Proposal(tuple(dims), ("no coordinate moved in random play: there is no entropy to raise",))
    copies = survey.copies(left)
    left = [i for i in left if i not in copies]
    angles = survey.angles(left)
    second = {j for _, j in angles}
    turned = dict(angles)
    features = tuple((i, turned[i]) if i in turned else i for i in left if i not in second)
    notes = []
    if constant:
        notes.append(f"left out of the entropy: {listed(constant, names)}, constant in random play")
    if fixed:
        notes.append(f"left out of the entropy: {listed(fixed, names)}, set at the start and moved by no action")
    if copies:
        pairs = ", ".join(f"{names[j]} follows {names[i]}" for j, i in list(copies.items())[:4])
        notes.append(f"left out of the entropy: {listed(list(copies), names)}, copies of others ({pairs})")
    if angles:
        pairs = ", ".join(f"{names[i]} and {names[j]}" for i, j in angles)
        notes.append(f"taken as angles: {pairs}, each the cosine and sine of one (--features all: as they are)")
    return Proposal(features, tuple(notes))


def listed(which: Sequence[int], names: Sequence[str], most: int = 6) -> str:
    """Names of coordinates in a sentence, runs of neighbours as ranges."""
    runs: list[list[int]] = []
    for i in which:
        if runs and runs[-1][-1] == i - 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    texts = [names[r[0]] if len(r) == 1 else f"{names[r[0]]} to {names[r[-1]]}" for r in runs]
    shown = ", ".join(texts[:most]) + (", ..." if len(texts) > most else "")
    return f"{shown} ({len(which)} coordinates)" if len(which) > 1 else shown


def rounded(value: float) -> float:
    """Two digits of `value`: enough for a unit, and short in a sentence."""
    return float(f"{value:.1e}")

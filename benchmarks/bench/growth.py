"""How the cost of an epoch's parts grows with its sizes, as the slope of ln seconds against ln size.

    sweep   what grows                      what stays
    N       particles N                     D = 2, k = 4, M = 20
    N24     particles N                     D = 24, k = 4, M = 20     (as many features as Humanoid's)
    N200    particles N                     D = 200, k = 4, M = 20    (above 100 features: brute force)
    noise24 particles N                     D = 24, k = 4, M = 20     (searched among independent normal points instead)
    D       entropy features D              N = 10,000, k = 4, M = 20
    k       neighbours k                    N = 10,000, D = 2, M = 20
    M       environments M, so N = 500 M    D = 2, k = 4

M walkers in a box of D dimensions (`bench.walk`) are driven by a fresh (300, 300) policy; their states and
actions have D coordinates. Their batch is then searched and climbed: trajectories, not independent points, since that
is what a search meets. Independent points in many dimensions are the worst case, in which no tree helps: `noise24`.
The optimiser is timed with 3 steps and counted ten times, for the paper's 30; the first pass of a climb is thereby
counted ten times as well, which makes it look about 10 % dearer than it is.

A part whose next measurement would take longer than the budget, by the slope of its last two, is skipped and says so.
"""

from __future__ import annotations

import copy
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from bench.clock import seconds
from bench.epoch import PARTS
from bench.walk import Walk
from mepol.algorithm import AscentConfig, GaussianPolicy, KnnLandscape, climb_by_importance, make_optimiser
from mepol.neighbours import Neighbours, neighbours
from mepol.sampling.collect import collect

ASCENT = AscentConfig(max_steps=3, learning_rate=1e-9, kl_threshold=1e9)  # no step is ever rejected
COUNTED = {"sampling": 1, "neighbours": 1, "optimise": 10}  # times that what was timed occurs in an epoch
REPETITIONS = 3


@dataclass(frozen=True)
class Sizes:
    """What an epoch's cost depends on; N = M T."""

    n: int = 10_000
    dim: int = 2
    k: int = 4
    m: int = 20
    noise: bool = False  # the search is among independent normal points


@dataclass(frozen=True)
class Sweep:
    """One size that grows through `values`; `at` makes all sizes from it."""

    label: str
    values: tuple[int, ...]
    at: Callable[[int], Sizes]


_N = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
SWEEPS = {
    "N": Sweep("particles N", _N, lambda v: Sizes(n=v)),
    "N24": Sweep("particles N, 24 features", _N, lambda v: Sizes(n=v, dim=24)),
    "N200": Sweep("particles N, 200 features", _N[:-2], lambda v: Sizes(n=v, dim=200)),
    "noise24": Sweep("particles N, 24 features of noise", _N[:-1], lambda v: Sizes(n=v, dim=24, noise=True)),
    "D": Sweep("features D", (2, 5, 10, 20, 40, 80, 100, 140, 200), lambda v: Sizes(dim=v)),
    "k": Sweep("neighbours k", (4, 8, 16, 32, 64, 125, 250, 500), lambda v: Sizes(k=v)),
    "M": Sweep("environments M", (2, 5, 10, 20, 50, 100, 200, 500), lambda v: Sizes(n=500 * v, m=v)),
}


@dataclass(frozen=True)
class Point:
    """Seconds of one part of an epoch at one size; None where it was skipped, with what it was predicted to take."""

    sweep: str
    size: int
    part: str
    seconds: float | None
    predicted: float | None = None


@dataclass(frozen=True)
class Growth:
    """The points of one sweep, and what they say."""

    sweep: str
    points: tuple[Point, ...]

    def curve(self, part: str) -> list[tuple[int, float]]:
        """(size, seconds) of the measured points of `part`, in order."""
        return [(p.size, p.seconds) for p in self.points if p.part == part and p.seconds is not None]

    @property
    def exponents(self) -> dict[str, float]:
        """Slope of ln seconds against ln size of each part, over the larger half of what was measured.

        At small sizes the overhead of a call hides the growth. Parts with fewer than two points there have none.
        """
        return {part: slope(larger) for part in PARTS if len(larger := larger_half(self.curve(part))) > 1}

    @property
    def bottleneck(self) -> int | None:
        """The smallest measured size from which on the search costs more than the optimiser, or None.

        A size whose search was skipped is not counted: what was not measured is not claimed.
        """
        optimise = dict(self.curve("optimise"))
        slower = [(size, s > optimise[size]) for size, s in self.curve("neighbours") if size in optimise]
        last_faster = max((i for i, (_, is_slower) in enumerate(slower) if not is_slower), default=-1)
        return slower[last_faster + 1][0] if last_faster + 1 < len(slower) else None


def larger_half(curve: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """The last half of a curve's points, rounded up, and at least two of them."""
    return list(curve[-max(2, (len(curve) + 1) // 2) :])


def slope(curve: Sequence[tuple[int, float]]) -> float:
    """Least-squares slope of ln seconds against ln size."""
    x, y = np.log(np.array(curve, dtype=np.float64)).T
    return float(np.polyfit(x, y, 1)[0])


def bench_growth(name: str, *, budget: float = 20.0, report: Callable[[Point], None] = lambda _: None) -> Growth:
    """Time each part of an epoch along the sweep `name`, on all cores, leaving out what would exceed `budget` s."""
    torch.set_num_threads(os.cpu_count() or 1)
    return measure_growth(name, SWEEPS[name].values, SWEEPS[name].at, budget=budget, report=report)


def measure_growth(
    name: str,
    values: Sequence[int],
    at: Callable[[int], Sizes],
    *,
    budget: float,
    report: Callable[[Point], None] = lambda _: None,
) -> Growth:
    """`bench_growth` over any sizes, with the threads that torch has."""
    took: dict[str, list[tuple[int, float]]] = {part: [] for part in PARTS}
    points: list[Point] = []
    for _, work in _Epoch(at(values[0])).parts():
        work()  # the first call of everything is slower than the others
    for size in values:
        for part, work in _Epoch(at(size)).parts():
            expected = predict(took[part], size)
            if expected > budget:
                point = Point(name, size, part, None, predicted=expected * COUNTED[part])
            else:
                took[part].append((size, _median_within(budget, work)))
                point = Point(name, size, part, took[part][-1][1] * COUNTED[part])
            points.append(point)
            report(point)
            if point.seconds is None and part == "sampling":
                break  # without a batch there is nothing to search or to climb
    return Growth(name, tuple(points))


def predict(curve: Sequence[tuple[int, float]], size: int) -> float:
    """Seconds at `size` by the slope of the last two points of a curve; linear after one point, 0 without any.

    The slope is taken to lie in [0, 2]: no part of an epoch grows faster, so what looks steeper is noise, or the change
    from one kind of search to the other.
    """
    if not curve:
        return 0.0
    last, took = curve[-1]
    steepness = min(max(0.0, slope(curve[-2:])), 2.0) if len(curve) > 1 else 1.0
    return float(took * (size / last) ** steepness)


def _median_within(budget: float, work: Callable[[], object]) -> float:
    """Median seconds of at most `REPETITIONS` calls, fewer where another one would exceed the budget."""
    took = [seconds(work)]
    while len(took) < REPETITIONS and sum(took) + took[-1] <= budget:
        took.append(seconds(work))
    return statistics.median(took)


class _Epoch:
    """One epoch of given sizes, part by part."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._env = Walk(sizes.m, sizes.dim)
        self._policy = _policy(sizes.dim)
        self._near = _ring(sizes.n, sizes.k)
        shape = (sizes.n, sizes.dim)
        self._noise = np.random.default_rng(0).standard_normal(shape) if sizes.noise else None  # made untimed

    def parts(self) -> tuple[tuple[str, Callable[[], None]], ...]:
        """Name and work of each part, in order; the search may be left undone."""
        return tuple(zip(PARTS, (self._sample, self._search, self._climb), strict=True))

    def _sample(self) -> None:
        horizon = self._sizes.n // self._sizes.m
        self._batch = collect(self._policy, self._env, horizon, seed=np.random.SeedSequence(0))

    def _search(self) -> None:
        points = self._batch.particles(tuple(range(self._sizes.dim))) if self._noise is None else self._noise
        self._near = neighbours(points, self._sizes.k, eps=1e-15, workers=torch.get_num_threads())
        _ = self._near.adjacency  # made on first use, and part of the cost

    def _climb(self) -> None:
        climber = copy.deepcopy(self._policy)
        landscape = KnnLandscape(self._near)
        climb_by_importance(climber, make_optimiser(climber, ASCENT), self._batch, landscape, ASCENT)


@torch.no_grad()
def _policy(dim: int) -> GaussianPolicy:
    """A policy of GridWorld's widths and spread whose mean is zero everywhere: its walkers diffuse."""
    policy = GaussianPolicy(dim, dim, (300, 300))
    policy.initialise(np.random.default_rng(0), log_std=-1.5)
    for tensor in policy.layers[-1].parameters():
        tensor.zero_()
    return policy


def _ring(n: int, k: int) -> Neighbours:
    """Stands in for a search that was skipped: the optimiser's cost does not depend on who is near whom."""
    index = (np.arange(n)[:, None] + np.arange(1, k + 1)) % n
    return Neighbours(index, np.zeros(n))

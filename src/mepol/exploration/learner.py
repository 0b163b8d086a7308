"""MEPOL as an explorer: Algorithm 1 handed an environment, a clock and a seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from mepol.algorithm.average import Average
from mepol.algorithm.batch import Batch
from mepol.algorithm.curriculum import Curriculum
from mepol.algorithm.health import Watch
from mepol.algorithm.landscape import KnnLandscape, Landscape
from mepol.algorithm.loop import Epoch, mepol
from mepol.algorithm.network import ReluNetwork
from mepol.algorithm.policy import GaussianPolicy, Policy, one_thread
from mepol.algorithm.reuse import Union
from mepol.algorithm.rules import RULES
from mepol.algorithm.tail import TailLandscape
from mepol.envs.domain import Domain
from mepol.exploration.batches import Batches
from mepol.exploration.config import ExploreConfig
from mepol.exploration.explorers import Explorer, Improvement
from mepol.exploration.policies import Made, make_policy, take_first_batch
from mepol.exploration.rows import MetricsRow, StepRow
from mepol.exploration.workshop import Workshop
from mepol.neighbours import Workers
from mepol.runs.checkpoint import Part, Position
from mepol.runs.directory import RunDirectory
from mepol.runs.state import State
from mepol.runs.streams import Stream, stream
from mepol.sampling.actors import check_fit
from mepol.sampling.collect import Actor
from mepol.settings import require


class MepolExplorer(Explorer):
    """One policy that climbs the entropy of the states it visits."""

    def __init__(self, workshop: Workshop) -> None:
        super().__init__(workshop)
        config, domain, given = self.config, self.domain, workshop.given
        self.policy: Policy = self._first_policy()
        self._rule = given.rule or RULES[config.ascent.rule]
        rng = np.random.default_rng(stream(config.seed, Stream.CRITIC))
        self.ascent = self._rule.make(self.policy, config.ascent, config.critic, domain.state_dim, rng)
        self._average = Average(self.policy, config.ascent.average) if config.ascent.average else None
        self._watch = Watch(config.ascent, self._rule)
        self._curriculum = Curriculum(config.horizon_start or config.horizon, config.horizon, config.trajectories)
        self._batches = Batches(config.ascent.reuse, config.ascent.state_discount) if config.ascent.reuse > 1 else None
        self._union: Union | None = None
        self._clock = Stopwatch()
        self._batch: Batch | None = None
        self._coinciding: int | None = None
        self._told_coinciding = self._told_dropped = False
        self._epochs: Iterator[Epoch] | None = None

    def actor(self) -> Actor:
        """The policy that is kept and measured: the newest, or the mean of the last ones."""
        return self._average.policy if self._average else self.policy

    def _first_policy(self) -> Policy:
        """What was handed in or is gone on from, or else a new policy."""
        domain, own, start = self.domain, self.workshop.given.policy, self.workshop.start
        if own is not None:
            return own(domain.state_dim, domain.action_dim)  # type: ignore[no-any-return]
        if start is None:
            return make_policy(self.config, domain)
        actions: Any = self.workshop.env(1).single_action_space
        check_fit(start, domain.state_dim, actions, domain.env)
        learns = f"a policy that can learn on, not a {type(start).__name__}"
        require(isinstance(start, Made), "init", self.config.init, learns)
        if self.config.policy.symmetric and isinstance(start, GaussianPolicy) and start.has(domain.symmetries):
            start.tie(domain.symmetries)
        return start  # type: ignore[no-any-return]

    def improve(self, epoch: int) -> Improvement:
        """One epoch of Algorithm 1."""
        if self._epochs is None:
            self._epochs = mepol(self._sample, self._search, self.ascent.climb, first_epoch=epoch)
        horizon = self._curriculum.horizon if self.config.horizon_start else None
        # Gradients of convolutions are summed in an order that depends on torch's threads: one, whatever the machine.
        alone = nullcontext() if self.domain.picture is None else one_thread()
        with self._clock.time("epoch"), alone:
            update = next(self._epochs)
        self._watch.check(update)
        if self._average:
            self._average.take(self.policy, epoch + 1)
        if self._curriculum.note(update.entropy):
            self._watch = Watch(self.config.ascent, self._rule)  # of longer trajectories: no fall of what was before
            self.workshop.tell(f"epoch {epoch + 1}: trajectories of {self._curriculum.horizon} steps from here on")
        columns = {
            **columns_of(update, self._clock.take(), self.config),
            "coinciding": self._coinciding,
            "horizon": horizon,
            "batches": self._union and len(self._union.drawn),
        }
        steps = (*given_up(epoch, self._union), *steps_of(update))
        return Improvement(0 if self._batch is None else self._batch.size, columns, steps, self._batch)

    def state(self, turn: int) -> State:
        """The policy, the critic where the rule has one, their optimiser, the mean, and where a curriculum stands."""
        loose = self._curriculum.state() if self.config.horizon_start else {}
        mean = {"average": self._average.policy} if self._average else {}
        return State({**self.ascent.modules, **mean}, self.ascent.optimisers, loose)

    def recall(self, position: Position, part: Callable[[int], Path]) -> None:
        """The batches that the next epoch looks back on."""
        if self._batches:
            self._batches.recall(position, part, self.policy)

    def keep(self, run: RunDirectory[Any, Any], turn: int) -> tuple[Part, ...]:
        """The newest batch, where a later epoch looks back on it."""
        return self._batches.store(run, turn) if self._batches else ()

    def follow(self, rows: Sequence[MetricsRow]) -> None:
        """The last epoch's entropy, which the next is compared with."""
        same = [row.entropy for row in rows[-1:] if row.horizon in (None, self._curriculum.horizon)]
        self._watch = Watch(self.config.ascent, self._rule, *same)

    def _sample(self, epoch: int) -> Batch:
        config, wanted = self.config, self._curriculum
        with self._clock.time("sample"):
            batch = self.workshop.collect(
                self.policy, wanted.trajectories, wanted.horizon, stream(config.seed, Stream.BATCH, epoch)
            )
        is_first = epoch == 0 and self.workshop.start is None
        if is_first and isinstance(self.policy, ReluNetwork):
            take_first_batch(self.policy, batch, self.domain, config.policy)
        self._batch = batch
        if self._batches is None:
            return batch
        self._union = self._batches.union(batch, self.policy)
        if self._union.dropped and not self._told_dropped:
            self._told_dropped = True
            self.workshop.tell(
                f"epoch {epoch}: {len(self._union.dropped)} earlier batches were dropped, whose weights add too little "
                "(column batches of metrics.csv, and steps below 0 of steps.csv)"
            )
        return self._union.batch

    def _search(self, batch: Batch) -> Landscape:
        objective = self.workshop.given.objective
        with self._clock.time("knn"):
            if objective is not None:
                own: Landscape = objective(batch, self.domain)
                return own
            parts = search_parts(batch, self.domain, self.config, self.workshop.workers)
        landscape: Landscape = parts[0] if len(parts) == 1 else TailLandscape(parts, self.config.worlds.risk)
        if self.domain.floor:
            self._coinciding = sum(part.near.coinciding for part in parts)
            if self._coinciding and not self._told_coinciding:
                self._told_coinciding = True
                self.workshop.tell(
                    f"{self._coinciding} of {landscape.n} particles lie nearer than {self.domain.floor:.1g} to their "
                    "k-th neighbour, and count as that far (column coinciding of metrics.csv)"
                )
        return landscape


def search(batch: Batch, domain: Domain, config: ExploreConfig, workers: Workers) -> KnnLandscape:
    """Neighbours of a batch's particles in the run's metric; volumes in raw units whatever the metric."""
    ascent = config.ascent
    near = domain.search(batch, ascent.k, eps=ascent.eps, workers=workers)
    return KnnLandscape(near, batch.discounted(ascent.state_discount))


def search_parts(batch: Batch, domain: Domain, config: ExploreConfig, workers: Workers) -> list[KnnLandscape]:
    """The same of each mini-batch; without several environments the batch is one."""
    rows, size = len(batch.lengths), config.worlds.size(len(batch.lengths))
    if size >= rows:
        return [search(batch, domain, config, workers)]
    return [search(batch.part(slice(a, a + size)), domain, config, workers) for a in range(0, rows, size)]


def columns_of(update: Epoch, seconds: dict[str, float], config: ExploreConfig) -> dict[str, Any]:
    """What an update says in metrics.csv."""
    return {
        "entropy": update.entropy,
        "kl": update.kl,
        "steps": len(update.accepted),
        "ess": update.ess,
        "learning_rate": update.accepted[-1].learning_rate if update.accepted else config.ascent.learning_rate,
        "sample_s": round(seconds["sample"], 4),
        "knn_s": round(seconds["knn"], 4),
        "optimise_s": round(seconds["epoch"] - seconds["sample"] - seconds["knn"], 4),
    }


def steps_of(update: Epoch) -> tuple[StepRow, ...]:
    """An update's tried steps, as lines of steps.csv."""
    return tuple(
        StepRow(update.epoch, i, int(s.accepted), s.learning_rate, s.entropy, s.kl, s.ess)
        for i, s in enumerate(update.steps)
    )


def given_up(epoch: int, union: Union | None) -> tuple[StepRow, ...]:
    """The unions that were given up before an epoch's first step, as lines of steps.csv."""
    dropped = union.dropped if union else ()
    return tuple(StepRow(epoch, -d.batches, 0, None, None, None, d.ess) for d in dropped)


class Stopwatch:
    """Seconds spent under each name since they were last taken."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Add the time of the block to `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start

    def take(self) -> dict[str, float]:
        """Hand over the seconds and start again from zero."""
        taken, self._seconds = self._seconds, {}
        return taken

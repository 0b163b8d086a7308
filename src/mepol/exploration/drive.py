"""Drive one exploration: make its workshop and its directory, and hand both to the loop."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mepol.errors import ConfigError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.explorers import Explorer, Kind, kind_of
from mepol.exploration.rows import EXPLORE, MetricsRow
from mepol.exploration.total import TotalCells
from mepol.exploration.workshop import NOTHING, Given, Workshop, open_workshop
from mepol.exploration.worlds.measures import keep_worlds, rewind_worlds
from mepol.runs.callbacks import Callback, Progress
from mepol.runs.changes import Change, changes_of, note_changes
from mepol.runs.checkpoint import Position, restore
from mepol.runs.directory import RunDirectory
from mepol.runs.domain import keep_domain, load_domain
from mepol.runs.drive import Turn, best_header, best_kept, drive, require_length
from mepol.runs.machine import threads_in_force
from mepol.runs.policies import load_policy, with_header
from mepol.runs.start import load_start, own_start
from mepol.runs.state import State
from mepol.runs.streams import Stream, stream
from mepol.runs.unused import require_unused
from mepol.settings import flat_settings, require, with_settings

ExploreRun = RunDirectory[ExploreConfig, MetricsRow]
Report = Callable[[Progress], None]
CHANGEABLE = ("k", "eps")
"""Settings that may become other ones on a run's way."""


def explore(
    config: ExploreConfig,
    out: str | Path,
    *,
    given: Given = NOTHING,
    callbacks: Sequence[Callback] = (),
    report: Report = lambda _: None,
    tell: Callable[[str], None] = lambda _: None,
) -> ExploreRun:
    """Run the whole exploration of `config` into the new directory `out`; returns the finished run.

    Everything is checked before `out` is made. Whatever stops it, `resume` goes on from its last checkpoint.
    tell: takes the sentences that a user should read once: what was chosen for them, what is odd.
    """
    kind = kind_of(config, given)
    require_length(EXPLORE, kind.length(config))
    require_unused(Path(out), EXPLORE.heads)  # told before an environment is made, which may take half a minute
    start = load_start(config.init)
    with threads_in_force(config.machine), open_workshop(config, given, tell=tell) as workshop:
        config = workshop.config  # nothing is left open in it
        explorer = kind.make(dataclasses.replace(workshop, start=start))
        initial = explorer.policy_bytes()
        with RunDirectory.create(out, EXPLORE, config, workshop.domain.to_json(), initial) as run:
            job = Exploration(run, workshop, explorer, kind)
            length = kind.length(config)
            drive(run, job, Position(0, 0), length=length, machine=config.machine, callbacks=callbacks, report=report)
    return run


def resume(
    path: str | Path,
    *,
    length: int | None = None,
    changes: Mapping[str, Any] | None = None,
    given: Given = NOTHING,
    callbacks: Sequence[Callback] = (),
    report: Report = lambda _: None,
) -> ExploreRun:
    """Continue the run in `path` to its end, or to epoch `length`; equal, bit for bit, to a run never stopped.

    changes: settings of CHANGEABLE that are other ones from here on, where coinciding particles ended the run: then it
    equals no other, and says so. A run that is made longer keeps the evaluation of its old end, which one begun at
    that length may not have. Everything is read and checked before anything on disk is changed.
    """
    run: ExploreRun = RunDirectory.open(path)
    kind = kind_of(run.config, given)
    new = _changed(run.config, changes or {})
    run = dataclasses.replace(run, config=with_settings(run.config, {name: after for name, (_, after) in new.items()}))
    if length is not None and length != kind.length(run.config):
        if not kind.length_name:
            raise ConfigError(f"epochs = {length} is not possible: {kind.name} exploration does not learn")
        run = dataclasses.replace(run, config=with_settings(run.config, {kind.length_name: length}))
    config = run.config
    require_length(EXPLORE, kind.length(config))
    start = own_start(run)
    with (
        threads_in_force(config.machine),
        run.held(),
        open_workshop(config, given, load_domain(run, given)) as workshop,
    ):
        explorer = kind.make(dataclasses.replace(workshop, start=start))
        measured = {row.epoch for row in run.rows() if row.index is not None}
        job = Exploration(run, workshop, explorer, kind, measured)
        position = restore(run, job) or Position(0, 0)
        if kind.length(config) < position.turn:
            wanted = kind.length(config)
            raise ConfigError(f"epochs = {wanted} is not possible: {path} already stands at epoch {position.turn}")
        best = _best_again(run, workshop) if new else None
        run.rewind(position.turn)
        rewind_worlds(run, position.turn)
        note_changes(run, position.turn, (Change(position.turn, name, *values) for name, values in new.items()))
        if best is not None:
            run.save_policy(best, "best")
        run = run.with_config(config)
        keep_domain(run, lambda: workshop.domain)
        since = max((change.turn for change in changes_of(run)), default=0)
        explorer.follow([row for row in run.rows() if row.epoch >= since])  # other neighbours make no fall of entropy
        drive(
            run, job, position, length=kind.length(config), machine=config.machine, callbacks=callbacks, report=report
        )
    return run


def _changed(config: ExploreConfig, changes: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Setting -> its value before and after, of those that are to become other ones."""
    if wrong := sorted(set(changes) - set(CHANGEABLE)):
        raise ConfigError(f"{wrong[0]} cannot be changed on the way: only {' and '.join(CHANGEABLE)} can")
    require(changes.get("k") != 0, "k", 0, "at least 1 on the way: only a new run leaves it to the features")
    now = flat_settings(config)
    return {name: (now[name], value) for name, value in changes.items() if value is not None and value != now[name]}


def _best_again(run: ExploreRun, workshop: Workshop) -> bytes | None:
    """The best policy so far, with the score that it has under the new settings: later ones are compared with it."""
    kept, given = best_kept(run), workshop.given.policy
    if kept is None:
        return None
    path, (turn, _) = run.policy_path("best"), kept
    policy = load_policy(path, given and given(workshop.domain.state_dim, workshop.domain.action_dim))
    score = workshop.assess(policy, stream(run.config.seed, Stream.EVALUATION, turn)).evaluation.index
    return with_header(path.read_bytes(), best_header(run, turn, score))


class Exploration:
    """Phase 1 as a job: each epoch measures its policy if that is due, then improves it."""

    def __init__(
        self, run: ExploreRun, workshop: Workshop, explorer: Explorer, kind: Kind, measured: Collection[int] = ()
    ) -> None:
        """measured: epochs whose policies are measured whether or not that is due."""
        self._run, self._workshop, self._explorer, self._kind = run, workshop, explorer, kind
        self._measured = measured
        self._total = TotalCells(workshop.domain.grid)
        self.actor, self.recall, self.policy_bytes = explorer.actor, explorer.recall, explorer.policy_bytes

    def state(self, turn: int) -> State:
        """The explorer's, and the cells that its batches have visited so far."""
        return self._explorer.state(turn).beside(self._total.state())

    def turn(self, number: int, samples: int, *, last: bool) -> Turn[MetricsRow]:
        """One epoch. The row describes the policy that the epoch starts from, so it is measured before the update."""
        row, extra = MetricsRow(number, samples), {}
        if last or self._is_due(number):
            seed = stream(self._run.config.seed, Stream.EVALUATION, number)
            found = self._workshop.assess(self._explorer.actor(), seed)
            keep_worlds(self._run, number, found.worlds)
            evaluation = found.evaluation
            if evaluation.visits is not None:
                self._run.save_visits(number, evaluation.visits)
            row = with_evaluation(row, evaluation)
            extra = {"evaluation": evaluation}
        if last:
            return Turn(row, extra=extra)
        began = time.perf_counter()
        done = self._explorer.improve(number)
        # This column says that there was an update: an explorer may leave it out, a run never does.
        row = dataclasses.replace(row, **{"optimise_s": round(time.perf_counter() - began, 4), **done.columns})
        row = dataclasses.replace(row, total_cells=self._total.after(number, done.batch))
        parts = self._explorer.keep(self._run, number + 1)
        return Turn(row, done.samples, done.steps, parts, done.batch, extra)

    def is_enough(self, rows: Sequence[MetricsRow]) -> bool:
        """Never: an exploration goes on for as long as it was asked to."""
        return False

    def _is_due(self, epoch: int) -> bool:
        every = 1 if self._kind.evaluates_always else self._run.config.evaluation.evaluate_every
        off = self._run.config.evaluation.evaluate_every == 0
        return epoch == 0 or epoch in self._measured or (not off and epoch % every == 0)


def with_evaluation(row: MetricsRow, evaluation: object) -> MetricsRow:
    """`row` with what an evaluation found."""
    columns = ("index", "true_index", "discrete_entropy", "pooled_entropy", "cells")
    return dataclasses.replace(row, **{name: getattr(evaluation, name) for name in columns})

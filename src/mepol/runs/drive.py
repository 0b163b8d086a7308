"""Turn after turn to the end: the one loop that drives a run of either phase and leaves it on disk."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from mepol.algorithm.batch import Batch
from mepol.errors import ConfigError, PolicyFileError
from mepol.runs.callbacks import Callback, Progress
from mepol.runs.checkpoint import Part, Position
from mepol.runs.directory import RunDirectory
from mepol.runs.keeper import Keeper, Kept
from mepol.runs.machine import MachineConfig
from mepol.runs.phases import Phase
from mepol.runs.policies import policy_header, with_header

R = TypeVar("R")


@dataclass(frozen=True)
class Turn(Generic[R]):
    """What one turn did."""

    row: R
    """Its line of metrics.csv: about the policy that it began with."""
    samples: int = 0
    """Environment steps that it spent."""
    details: tuple[Any, ...] = ()
    """Its lines of the second table."""
    parts: tuple[Part, ...] = ()
    """What the learner's memory rests on afterwards."""
    batch: Batch | None = None
    """The trajectories that it learnt from, where there are such."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What else callbacks may want to see."""


class Job(Kept, Protocol[R]):
    """One phase's work on one run: it improves its policy by a turn at a time."""

    def actor(self) -> Any:
        """What acts now."""
        ...

    def turn(self, number: int, samples: int, *, last: bool) -> Turn[R]:
        """Measure the policy if that is due and, unless it is the `last` turn, improve it.

        samples: environment steps spent so far.
        """
        ...

    def is_enough(self, rows: Sequence[R]) -> bool:
        """Whether, after these rows, the next turn is to be the last although more were asked for."""
        ...


def require_length(phase: Phase[Any, Any], length: int) -> None:
    """ConfigError for a run that would write more rows than anything reads back."""
    if length >= phase.metrics.most:
        raise ConfigError(f"{phase.turn}s = {length} is not possible: it must be below {phase.metrics.most}")


def drive(
    run: RunDirectory[Any, R],
    job: Job[R],
    position: Position,
    *,
    length: int,
    machine: MachineConfig,
    callbacks: Sequence[Callback] = (),
    report: Callable[[Progress], None] = lambda _: None,
) -> None:
    """From `position` to turn `length`, leaving rows, checkpoints and policies on disk; the run must be held.

    A callback that returns True ends the run well: the turn after it only measures, as the last turn of any run does.
    """
    rows = run.rows()
    best = best_score(run)
    stop = False
    turns, minutes = machine.checkpoint_epochs, machine.checkpoint_minutes
    with Keeper(run, job, position, turns=turns, minutes=minutes) as keeper:
        for number in range(position.turn, length + 1):
            last = stop or number == length or job.is_enough(rows)
            done = job.turn(number, keeper.position.samples, last=last)
            score = getattr(done.row, run.phase.score)
            if score is not None and score > best:
                best = score
                run.save_policy(with_header(keeper.policy, best_header(run, number, score)), "best")
            if last:
                keeper.write()  # the last row says that the run is finished: everything else is on disk before it
            run.append(done.row, done.details)
            rows.append(done.row)
            if not last:
                keeper.advance(done.samples, done.parts)
            progress = Progress(done.row, length, job.actor(), done.batch, run, done.extra)
            report(progress)
            answers = [callback(progress) for callback in callbacks]  # all are asked, also after one has said stop
            stop = True in answers
            if last:
                break
        run.sync_rows()


def best_score(run: RunDirectory[Any, Any]) -> float:
    """Score of the best policy that the run has kept, -inf where there is none."""
    found = best_kept(run)
    return -math.inf if found is None else found[1]


def best_kept(run: RunDirectory[Any, Any]) -> tuple[int, float] | None:
    """Turn and score of the best policy that the run has kept; None where there is none, or it does not say so.

    As its file says, not metrics.csv: rows are written anew where a run goes on from an earlier checkpoint, and the
    policy that was measured there is still the best.
    """
    try:
        header = policy_header(run.policy_path("best"))
        turn, score = int(header.get(run.phase.turn, "")), float(header.get("score", ""))
    except (PolicyFileError, ValueError):
        return None
    return (turn, score) if turn >= 0 and math.isfinite(score) else None


def best_header(run: RunDirectory[Any, Any], turn: int, score: float) -> dict[str, str]:
    """What `best_kept` reads of the best policy's file."""
    return {run.phase.turn: str(turn), "score": repr(float(score))}

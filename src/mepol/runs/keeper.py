"""Sees to it that the state of the last finished turn reaches the disk, however the run ends."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol

from mepol.runs.checkpoint import Part, Position, Resumable, checkpoint_bytes
from mepol.runs.directory import RunDirectory


class Kept(Resumable, Protocol):
    """What a keeper looks after."""

    def policy_bytes(self) -> bytes:
        """The present policy as a file."""
        ...


@dataclass(frozen=True)
class Held:
    """One finished state, as the bytes that will be written."""

    position: Position
    checkpoint: bytes
    policy: bytes


class Keeper:
    """Holds the state of the last finished turn.

    A checkpoint is written every few turns or minutes, and when the block is left in whatever way: by its end,
    an error, Ctrl-C or a termination signal. A turn that was under way leaves no trace in it.
    """

    def __init__(
        self, run: RunDirectory[Any, Any], learner: Kept, position: Position, *, turns: int, minutes: float
    ) -> None:
        self._run, self._learner = run, learner
        self._turns, self._seconds = turns, 60.0 * minutes
        self._rests_on: list[set[int]] = []  # parts of the kept checkpoints, the newest last
        self._held = self._hold(position)
        self._saved: Held | None = None
        self.write()

    @property
    def position(self) -> Position:
        """Where the run stands."""
        return self._held.position

    @property
    def policy(self) -> bytes:
        """The policy that the present turn began with."""
        return self._held.policy

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.write()

    def advance(self, samples: int, parts: tuple[Part, ...] = ()) -> None:
        """Note the end of a turn that drew `samples`; its row must already be in metrics.csv.

        parts: those that the memory now rests on; their files must already be written.
        """
        # One assignment: a signal finds either the turn before or this one, never a mixture.
        self._held = self._hold(Position(self.position.turn + 1, self.position.samples + samples, parts))
        many = self.position.turn - self._saved_turn >= self._turns
        if many or time.monotonic() - self._saved_at >= self._seconds:
            self.write()

    def _hold(self, position: Position) -> Held:
        return Held(position, checkpoint_bytes(self._run, self._learner, position), self._learner.policy_bytes())

    def write(self) -> None:
        """Write the held state, unless that has been done."""
        held = self._held
        if held is self._saved:
            return
        self._run.save_checkpoint(held.position.turn, held.checkpoint)
        self._run.save_policy(held.policy)
        self._saved, self._saved_turn, self._saved_at = held, held.position.turn, time.monotonic()
        self._rests_on = [*self._rests_on[-1:], {part.number for part in held.position.parts}]
        if len(self._rests_on) > 1:  # after a resume the older checkpoint's are not known yet: nothing goes
            self._run.forget_parts(set().union(*self._rests_on))

"""Sees to it that the state of the last finished epoch reaches the disk, however the run ends."""

from __future__ import annotations

import time
from dataclasses import dataclass

from mepol.runs.checkpoint import Learner, Position, checkpoint_bytes
from mepol.runs.directory import Run
from mepol.runs.policies import policy_bytes


@dataclass(frozen=True)
class Held:
    """One finished state, as the bytes that will be written."""

    position: Position
    checkpoint: bytes
    policy: bytes


class Keeper:
    """Holds the state of the last finished epoch.

    A checkpoint is written every few epochs or minutes, and when the block is left in whatever way: by its end,
    an error, Ctrl-C or a termination signal. An epoch that was under way leaves no trace in it.
    """

    def __init__(self, run: Run, learner: Learner, position: Position) -> None:
        self._run, self._learner = run, learner
        self._held = self._hold(position)
        self._write()

    @property
    def position(self) -> Position:
        """Where the run stands."""
        return self._held.position

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        if self._saved is not self._held:
            self._write()

    def advance(self, samples: int) -> None:
        """Note the end of an epoch that drew `samples`; its row must already be in metrics.csv."""
        # One assignment: a signal finds either the epoch before or this one, never a mixture.
        self._held = self._hold(Position(self.position.epoch + 1, self.position.samples + samples))
        often = self._run.config.machine
        many = self.position.epoch - self._saved.position.epoch >= often.checkpoint_epochs
        if many or time.monotonic() - self._saved_at >= 60.0 * often.checkpoint_minutes:
            self._write()

    def _hold(self, position: Position) -> Held:
        return Held(position, checkpoint_bytes(self._learner, position), policy_bytes(self._learner.policy))

    def _write(self) -> None:
        held = self._held
        self._run.save_checkpoint(held.position.epoch, held.checkpoint)
        self._run.save_policy(held.policy)
        self._saved, self._saved_at = held, time.monotonic()

"""changes.csv of a run: settings that were changed on its way, and the turn that each holds from.

A run that has none equals one never stopped, to the bit; one that has some does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from mepol.runs.directory import RunDirectory
from mepol.runs.tables import Table


@dataclass(frozen=True, slots=True)
class Change:
    """One setting, as it was before turn `turn` and as it is from there on."""

    turn: int
    setting: str
    before: float
    after: float


TABLE = Table("changes.csv", Change, most=10_000)


def changes_of(run: RunDirectory[Any, Any]) -> list[Change]:
    """What was changed, oldest first."""
    path = run.path / TABLE.name
    return TABLE.read(path) if path.is_file() else []


def note_changes(run: RunDirectory[Any, Any], turn: int, new: Iterable[Change]) -> None:
    """Add what is `new` at `turn`; what was to hold from a later turn, which the run has been taken back from, does so
    from here."""
    known = [replace(change, turn=min(change.turn, turn)) for change in changes_of(run)]
    if rows := [*known, *new]:
        run.door.write_text(TABLE.name, TABLE.head + "".join(map(TABLE.line, rows)))

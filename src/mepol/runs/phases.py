"""The two phases of a run, each as one entry of a table: what its directory holds beyond what all have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

from mepol.envs.domain import Domain
from mepol.envs.make import Environments
from mepol.errors import RunError
from mepol.evaluation.assess import Protocol
from mepol.runs.tables import Table

C = TypeVar("C")
R = TypeVar("R")


@dataclass(frozen=True)
class Phase(Generic[C, R]):
    """A kind of run. A turn is one step of its loop: an epoch of exploration, an iteration of fine-tuning."""

    name: str
    turn: str
    """What a turn is called, and the column of metrics.csv that counts them."""
    config: type[C]
    """Dataclass of its settings."""
    metrics: Table[R]
    """metrics.csv: one row per policy."""
    score: str
    """The column that says which policy is the best."""
    learnt: str
    """The column that is empty in the row of a policy that was measured but not improved: a run's last."""
    names: Callable[[C], Iterable[str]]
    """Names in the settings of what makes its environment, which may ask for an import (`module:name`)."""
    length: Callable[..., int]
    """length(config, given=None): turns of a whole run, with the objects that were handed in."""
    environments: Callable[[C, Any], Environments]
    """What makes its environment: from the settings, and the objects that were handed in (or None)."""
    domain: Callable[[Any, C], Domain]
    """What a live environment says of itself under the settings; for runs that did not store it."""
    protocol: Callable[[C], Protocol]
    """How it is measured."""
    resume: Callable[..., Any]
    """resume(path, length=None, given=None, callbacks=(), report=...) -> the run, brought to its end; explorations
    take `changes` as well."""
    lengths: tuple[str, ...]
    """Names of the settings that say how many turns; they may be changed when a run is resumed."""
    goals: Callable[[C], Iterable[str]] = lambda config: ()
    """Names of functions of states, which may ask for an import too."""
    details: Table[Any] | None = None
    """A second table, with any number of rows a turn."""

    @property
    def heads(self) -> dict[str, str]:
        """Name and first line of each of its tables."""
        return {table.name: table.head for table in (self.metrics, self.details) if table}

    def has_ended(self, rows: Sequence[R]) -> bool:
        """Whether the last of a run's `rows` is of a policy that was measured and not improved."""
        return bool(rows) and getattr(rows[-1], self.learnt) is None


PHASES: dict[str, Phase[Any, Any]] = {}
"""Filled by the rooms `exploration` and `finetuning`."""


def register(phase: Phase[C, R]) -> Phase[C, R]:
    """Make run directories of `phase` known to everything that opens one."""
    PHASES[phase.name] = phase
    return phase


def phase_for(config: object) -> Phase[Any, Any]:
    """The phase that has such settings."""
    return next(phase for phase in PHASES.values() if isinstance(config, phase.config))


def phase_of(settings: Any) -> Phase[Any, Any]:
    """The phase whose settings these are (a config.json as plain values): it alone has some of their names."""
    count = Counter(field.name for phase in PHASES.values() for field in fields(phase.config))
    telling = {name for name in settings if count[name] == 1} if isinstance(settings, dict) else set()
    found = [phase for phase in PHASES.values() if telling & {field.name for field in fields(phase.config)}]
    if len(found) != 1:
        raise RunError(f"its config.json is of no known kind of run ({' or '.join(PHASES)})")
    return found[0]

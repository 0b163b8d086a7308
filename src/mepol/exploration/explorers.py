"""What explores: one protocol, and a table of those that are known. A new one is one file and one line here.

class Mine(Explorer):                                      # acts, and improves by an epoch at a time
mepol.explore("gridworld", explorer=Kind("mine", "...", Mine))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mepol.algorithm.batch import Batch
from mepol.errors import ConfigError
from mepol.exploration.config import EXPLORERS, ExploreConfig
from mepol.exploration.rows import MetricsRow, StepRow
from mepol.exploration.workshop import NOTHING, Given, Workshop, require_objects
from mepol.runs.checkpoint import Part, Position
from mepol.runs.directory import RunDirectory
from mepol.runs.policies import policy_bytes
from mepol.runs.state import State
from mepol.sampling.collect import Actor


@dataclass(frozen=True)
class Improvement:
    """What one epoch did."""

    samples: int
    """Environment steps that it spent."""
    columns: dict[str, Any] = field(default_factory=dict)
    """Of its row in metrics.csv; `optimise_s`, where it is not among them, is the time that the epoch took."""
    steps: tuple[StepRow, ...] = ()
    """Its lines of steps.csv."""
    batch: Batch | None = None
    """The trajectories that it learnt from."""


class Explorer(ABC):
    """One run's explorer. It is made in a workshop, acts, and improves by an epoch at a time.

    >>> import mepol
    >>> from mepol.exploration.explorers import Improvement, Kind
    >>> class Patient(mepol.Explorer):  # waits for a better idea
    ...     def actor(self):
    ...         return mepol.load_policy("runs/gridworld/policy.safetensors")
    ...     def improve(self, epoch):
    ...         return Improvement(samples=0)
    >>> settings = {"epochs": 1, "horizon": 60, "eps": 1e-15, "progress": False}
    >>> run = mepol.explore("gridworld", explorer=Kind("patient", "waits", Patient), out="runs/patient", **settings)
    >>> run.config.explorer
    'given:patient'
    """

    def __init__(self, workshop: Workshop) -> None:
        self.workshop, self.config, self.domain = workshop, workshop.config, workshop.domain

    @abstractmethod
    def actor(self) -> Actor:
        """What acts now."""

    @abstractmethod
    def improve(self, epoch: int) -> Improvement:
        """One epoch: sample, learn."""

    def state(self, turn: int) -> State:
        """What a checkpoint keeps of it before epoch `turn`: nothing, for one that the seed alone decides."""
        return State({}, {})

    def recall(self, position: Position, part: Callable[[int], Path]) -> None:
        """Put back what is not in the state: nothing, for one without a memory."""
        return None

    def keep(self, run: RunDirectory[Any, Any], turn: int) -> tuple[Part, ...]:
        """After an epoch, write what a checkpoint of `turn` is too small for; returns the parts that it rests on."""
        return ()

    def follow(self, rows: Sequence[MetricsRow]) -> None:
        """Take up a run with these rows behind it: one that was stopped is judged as one never stopped."""
        return None

    def policy_bytes(self) -> bytes:
        """What acts, as a file."""
        return policy_bytes(self.actor())


@dataclass(frozen=True)
class Kind:
    """A kind of explorer."""

    name: str
    summary: str
    make: Callable[[Workshop], Explorer]
    length: Callable[[ExploreConfig], int] = lambda config: config.epochs
    """Epochs of a whole run."""
    length_name: str = "epochs"
    """The setting that says so."""
    settings: type | None = None
    """Dataclass of its own settings, the slot `rival` of an ExploreConfig."""
    describe: Callable[[ExploreConfig], str] = lambda config: (
        f"{config.epochs} epochs of {config.trajectories} x {config.horizon} steps"
    )
    """What is about to be done, in a few words."""
    evaluates_always: bool = False
    """Whether its epochs are so long that each is measured, unless evaluations are switched off."""


KINDS: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    """Make a kind of explorer known by its name, and its settings with it."""
    KINDS[kind.name] = kind
    EXPLORERS[kind.name] = kind.settings


def explorer_kind(name: str) -> Kind:
    """The kind of explorer called `name`."""
    if name not in KINDS:
        near = get_close_matches(name, KINDS, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(f"no explorer {name[:80]!r}; {hint}there are {', '.join(KINDS)}")
    return KINDS[name]


def kind_of(config: ExploreConfig, given: Given = NOTHING) -> Kind:
    """The kind of explorer that a run's settings ask for, or the one that was handed in."""
    require_objects(config, given)
    return explorer_kind(config.explorer) if given.explorer is None else given.explorer

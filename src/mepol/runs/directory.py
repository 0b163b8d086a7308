"""The run directory, the same for both phases: what a run leaves behind, and how it is read again.

config.json          every setting, and which run this is
domain.json          what the environment says of itself: names, features, grid, ceiling, reachable cells
metrics.csv          one row per policy (docs/reference/metrics.md, docs/method/finetune.md); empty: not measured
steps.csv            one row per tried gradient step (exploration)
changes.csv          settings that were changed on the way, where any were (changes.py)
policy.safetensors   the newest policy; initial.safetensors the one it started from; best.safetensors the best measured
checkpoints/         the newest two states to resume from; *.bad are ones that could not be read
replay/              what a replay memory was given, a file a turn, as long as a kept checkpoint rests on it
heatmaps/            visits of each evaluated policy: epoch-NNNNN.csv and the picture drawn from it
figures/             what is drawn of the run
lock                 held by the process that works on the run

Everything is written through one door, which keeps it inside (files.py).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from mepol.errors import ConfigError, RunError
from mepol.runs.files import Door, output_folder, read_text
from mepol.runs.lock import hold
from mepol.runs.phases import Phase, phase_of
from mepol.runs.trust import remember, require_trusted
from mepol.runs.unused import FOLDERS, require_unused
from mepol.runs.visits import read_visits, visits_text
from mepol.runs.zoo import require_own, run_place
from mepol.settings import flat_settings, from_json, to_json

C = TypeVar("C")
R = TypeVar("R")
MAX_CONFIG = 1 << 20  # bytes of a config.json or domain.json (whose mask of cells may take most of it)
MAX_DOMAIN = 1 << 23
KEEP = 2  # checkpoints


@dataclass(frozen=True)
class RunDirectory(Generic[C, R]):
    """A run directory that exists. `identity` says which run it is: checkpoints of another are not resumed from."""

    path: Path
    phase: Phase[C, R]
    config: C
    identity: str

    @property
    def door(self) -> Door:
        """The one way in which it is written."""
        require_own(self.path)
        return Door(self.path)

    # --- making and opening ---------------------------------------------------------------------------------------

    @staticmethod
    @contextmanager
    def create(
        path: str | Path, phase: Phase[C, R], config: C, domain: str, initial: bytes | None = None
    ) -> Iterator[RunDirectory[C, R]]:
        """Make a new run directory and hold it; one that already holds anything is refused, never overwritten.

        config.json comes last: a directory without it is what a crash left of this very function, and is used again.
        domain: text of domain.json; initial: the policy that the run starts from, where it is given.
        """
        path, tables = Path(path), phase.heads
        identity = _identity(phase, config, initial)
        require_unused(path, tables)
        door = output_folder(path)
        with hold(path):
            require_unused(path, tables)  # nor has another process used it since
            door.remove_leftovers()
            for folder in FOLDERS:
                door.folder(folder)
            for name, head in tables.items():
                door.write_text(name, head)
            door.write_text("domain.json", domain)
            if initial is not None:
                door.write("initial.safetensors", initial)
            run = RunDirectory(path, phase, config, identity)
            run._write_config(door)
            remember([*phase.names(config), *phase.goals(config)])
            yield run

    @staticmethod
    def open(path: str | Path) -> RunDirectory[Any, Any]:
        """An existing run of either phase, or a shipped one, `zoo:NAME`; its config checked."""
        path = run_place(path)
        if not os.path.isfile(path / "config.json"):  # noqa: PTH113  Path.is_file raises on impossible names
            raise RunError(f"{path} is not a run directory: it has no config.json")
        settings = _read_settings(path / "config.json")
        identity = settings.pop("run", "")
        try:
            phase = phase_of(settings)
            config = from_json(phase.config, json.dumps(settings))
        except (ConfigError, RunError) as fault:
            raise type(fault)(f"{path / 'config.json'}: {fault}") from fault
        for name in phase.names(config):
            require_trusted(name, path)
        for name in phase.goals(config):
            require_trusted(name, path, called=False)
        return RunDirectory(path, phase, config, identity if isinstance(identity, str) else "")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the run for this process; a second process is refused."""
        require_own(self.path)
        with hold(self.path):
            yield

    def with_config(self, config: C) -> RunDirectory[C, R]:
        """The same run with other settings, written to its directory."""
        run = dataclasses.replace(self, config=config)
        run._write_config(self.door)
        return run

    def _write_config(self, door: Door) -> None:
        settings = {"run": self.identity} if self.identity else {}
        door.write_text("config.json", json.dumps({**settings, **json.loads(to_json(self.config))}, indent=2) + "\n")

    # --- policies ---------------------------------------------------------------------------------------------------

    def policy_path(self, which: str = "last") -> Path:
        """Where the policy `last`, `best` or `initial` lies."""
        names = {"last": "policy", "best": "best", "initial": "initial"}
        if which not in names:
            raise ConfigError(f"which = {which!r} is not possible: it must be {', '.join(names)}")
        return self.path / f"{names[which]}.safetensors"

    def save_policy(self, data: bytes, which: str = "last") -> None:
        """Replace a policy by the bytes of another."""
        self.door.write(self.policy_path(which).name, data)

    # --- rows -------------------------------------------------------------------------------------------------------

    def rows(self) -> list[R]:
        """metrics.csv, read back."""
        return self.phase.metrics.read(self.path / self.phase.metrics.name)

    def append(self, row: R, details: Iterator[Any] | tuple[Any, ...] = ()) -> None:
        """Add one line to metrics.csv, after the turn's `details`."""
        if self.phase.details and details:
            table = self.phase.details
            self.door.append(table.name, "".join(table.line(line) for line in details))
        self.door.append(self.phase.metrics.name, self.phase.metrics.line(row))

    def sync_rows(self) -> None:
        """Wait until every appended row would survive a power cut."""
        for table in (self.phase.metrics, self.phase.details):
            if table:
                self.door.sync(table.name)

    @property
    def is_finished(self) -> bool:
        """Whether the run has reached its end."""
        return self.phase.has_ended(self.rows())

    # --- states to resume from ----------------------------------------------------------------------------------------

    def save_checkpoint(self, turn: int, data: bytes) -> None:
        """Write the state that `turn` starts from, then forget all but the newest two.

        The rows that led to it reach the disk first: no checkpoint is ever ahead of metrics.csv.
        """
        self.sync_rows()
        self.door.write(f"checkpoints/{self._name(turn)}.safetensors", data)
        for old in self.checkpoints()[KEEP:]:
            self.door.remove(f"checkpoints/{old.name}")

    def checkpoints(self) -> list[Path]:
        """Checkpoint files, the newest first."""
        return self._numbered("checkpoints", ".safetensors")[::-1]

    def save_part(self, number: int, data: bytes) -> None:
        """Write what a replay memory was given just before turn `number`."""
        self.door.write(f"replay/{self._name(number)}.safetensors", data)

    def part_path(self, number: int) -> Path:
        """Where that lies."""
        return self.path / "replay" / f"{self._name(number)}.safetensors"

    def forget_parts(self, needed: set[int]) -> None:
        """Remove the parts that no kept checkpoint rests on."""
        for path in self._numbered("replay", ".safetensors"):
            if _number_of(path) not in needed:
                self.door.remove(f"replay/{path.name}")

    def rewind(self, turn: int) -> None:
        """Make the directory what it was when the policy of `turn` had just been reached.

        Rows, heatmaps, parts and checkpoints of later policies go, with torn last lines and the temporary files of a
        process that was killed; checkpoints that could not be read are set aside as *.bad, where they cannot crowd
        out good ones. A table of details that is gone (it is long, and nothing of the run rests on it) begins anew.
        Raises RunError, and changes nothing, when rows of earlier policies are missing or a file to be written is a
        link.
        """
        texts = {}
        for table in (self.phase.metrics, self.phase.details):
            if table:
                path = self.path / table.name
                gone = table is self.phase.details and not os.path.lexists(path)
                kept = [] if gone else [row for row in table.read(path) if getattr(row, self.phase.turn) < turn]
                if table is self.phase.metrics and [getattr(r, self.phase.turn) for r in kept] != list(range(turn)):
                    raise RunError(f"{path} does not have one row for each {self.phase.turn} below {turn}")
                texts[table.name] = table.head + "".join(table.line(row) for row in kept)
        door = self.door
        policies = (self.policy_path(which).name for which in ("last", "best"))
        door.require("config.json", *texts, *policies)
        for folder in FOLDERS:
            door.folder(folder)
        door.remove_leftovers(*FOLDERS)
        for name, text in texts.items():
            door.write_text(name, text)
        for path in (self.path / "heatmaps").glob(f"{self.phase.turn}-*"):
            if (of := _number_of(path)) is not None and of >= turn:
                door.remove(f"heatmaps/{path.name}")
        for path in self._numbered("replay", ".safetensors"):
            if (_number_of(path) or 0) > turn:
                door.remove(f"replay/{path.name}")
        for path in self.checkpoints():
            if (_number_of(path) or 0) > turn:
                door.rename(f"checkpoints/{path.name}", f"{path.stem}.bad")

    # --- visits -----------------------------------------------------------------------------------------------------

    def visits_path(self, turn: int) -> Path:
        """Where the visit counts of the policy of `turn` lie."""
        return self.path / "heatmaps" / f"{self._name(turn)}.csv"

    def save_visits(self, turn: int, visits: NDArray[np.int64]) -> None:
        """Write visit counts (bins_0, bins_1), one line per bin of the first axis."""
        self.door.write_text(f"heatmaps/{self._name(turn)}.csv", visits_text(visits))

    def load_visits(self, turn: int) -> NDArray[np.int64]:
        """Read back what `save_visits` wrote; anything else is a RunError."""
        return read_visits(self.visits_path(turn))

    def evaluated_turns(self) -> list[int]:
        """Turns whose visits are stored, in order."""
        return [number for path in self._numbered("heatmaps", ".csv") if (number := _number_of(path)) is not None]

    # --- names ------------------------------------------------------------------------------------------------------

    def _name(self, turn: int) -> str:
        return f"{self.phase.turn}-{turn:05d}"

    def _numbered(self, folder: str, suffix: str) -> list[Path]:
        found = (self.path / folder).glob(f"{self.phase.turn}-*{suffix}")
        return sorted((p for p in found if _number_of(p) is not None), key=lambda p: _number_of(p) or 0)


def _number_of(path: Path) -> int | None:
    number = path.stem.rpartition("-")[2]
    return int(number) if number.isdecimal() and number.isascii() and len(number) < 19 else None


def _identity(phase: Phase[Any, Any], config: Any, initial: bytes | None) -> str:
    """Which run this is: a digest of its settings as it was made, and of what it starts from.

    How long it goes on does not count: a run that is made longer equals one that was begun with that length.
    """
    settings = {name: value for name, value in flat_settings(config).items() if name not in phase.lengths}
    content = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    content.update(initial or b"")
    return content.hexdigest()[:16]


def _read_settings(path: Path) -> dict[str, Any]:
    """A config.json as plain values; nothing of it is believed yet."""
    try:
        data = json.loads(read_text(path, MAX_CONFIG))
    except (OSError, ValueError, RecursionError) as fault:
        raise ConfigError(f"cannot read {path}: {fault}") from fault
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must hold an object")
    return data

"""The members of a study, each a run directory of its own, worked off by an engine: processes here, or a cluster.

An engine begins a member or goes on with it: whatever stops a member or the sweep, the same command goes on from the
last checkpoints, and `mepol resume` retries one alone. One sweep at a time works in a folder.
"""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mepol.errors import ConfigError, RunError
from mepol.exploration.study import Member
from mepol.runs.directory import RunDirectory
from mepol.runs.files import output_folder
from mepol.runs.groups import MEASURES, last_measured
from mepol.runs.lock import hold
from mepol.runs.machine import MACHINE_SETTINGS
from mepol.runs.phases import phase_for
from mepol.runs.tables import csv_text
from mepol.runs.text import plain
from mepol.settings import flat_settings


@dataclass(frozen=True)
class Outcome:
    """How a member stands: `waiting`, `running`, `done` or `failed`, and why."""

    member: Member
    state: str
    epoch: int = 0
    reason: str = ""

    @property
    def length(self) -> int:
        """Turns of the whole run: epochs of an exploration."""
        return phase_for(self.member.config).length(self.member.config)


class Engine(Protocol):
    """Where members are worked on. It is a context: when it is left, its work is asked to stop, and none goes on."""

    def __enter__(self) -> Any:
        """Ready for members."""
        ...

    def __exit__(self, *error: object) -> None:
        """Every member that is still worked on has written its checkpoint and ended, or was killed."""
        ...

    def start(self, member: Member) -> None:
        """Begin the member, or go on with it, as soon as there is room."""
        ...

    def ended(self) -> dict[str, int]:
        """Exit codes, by name, of the members that have ended since; waits for one, and a second at most."""
        ...

    def is_running(self, name: str) -> bool:
        """Whether a member that was started has found its room."""
        ...


def run_members(
    members: Sequence[Member],
    engine: Engine,
    jobs: int,
    report: Callable[[Sequence[Outcome]], None] = lambda _: None,
) -> list[Outcome]:
    """Work off `members` of one folder by `engine`, `jobs` at a time; finished ones are skipped, begun ones resumed.

    Returns how each ended. report: called with all outcomes whenever one may have changed. A member that fails is noted
    and the others go on. When this is interrupted, its work is asked to stop, and writes its checkpoints.
    """
    folder = members[0].path.parent
    door = output_folder(folder)
    with hold(folder):
        door.folder("logs")
        outcomes = {member.name: _look_first(member) for member in members}
        waiting = [member for member in members if outcomes[member.name].state == "waiting"]
        running: dict[str, Member] = {}
        epochs = Epochs()
        report(list(outcomes.values()))
        if not waiting:
            return list(outcomes.values())
        with engine:
            while waiting or running:
                while waiting and len(running) < jobs:
                    member = waiting.pop(0)
                    engine.start(member)
                    running[member.name] = member
                    if engine.is_running(member.name):
                        outcomes[member.name] = Outcome(member, "running", epochs.of(member))
                        report(list(outcomes.values()))
                codes = engine.ended()
                for name, member in list(running.items()):
                    if name in codes:
                        outcomes[name] = _look(member, codes[name])
                        del running[name]
                    elif engine.is_running(name):
                        outcomes[name] = Outcome(member, "running", epochs.of(member))
                report(list(outcomes.values()))
        return list(outcomes.values())


class Epochs:
    """The epochs that members stand at. A metrics.csv is read when it has changed since it was last looked at."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[tuple[int, int], int]] = {}

    def of(self, member: Member) -> int:
        """The epoch of the newest row; 0 where there is none yet, or none that can be read."""
        try:
            found = (member.path / "metrics.csv").stat()
            state = (found.st_mtime_ns, found.st_size)
            if self._seen.get(member.name, (None, 0))[0] != state:
                rows = RunDirectory.open(member.path).rows()
                self._seen[member.name] = state, _turn(rows)
            return self._seen[member.name][1]
        except (OSError, RunError, ConfigError):
            return 0


def _turn(rows: Sequence[Any]) -> int:
    """The turn of the newest row, which is its first column; 0 where there is none."""
    return int(dataclasses.astuple(rows[-1])[0]) if rows else 0


def _look_first(member: Member) -> Outcome:
    """Whether there is anything to do, and whether a directory that is there is this member's."""
    try:
        if member.path.is_symlink() or (member.path.exists() and not member.path.is_dir()):
            raise RunError(f"{member.path} is not a directory of its own, and nothing is written outside; remove it")
        if not (member.path / "config.json").exists():
            return Outcome(member, "waiting")
        run = RunDirectory.open(member.path)
        there, wanted = flat_settings(run.config), flat_settings(member.config)
        wanted = {n: value for n, value in wanted.items() if (n, value) != ("k", 0)}  # that a run settles itself
        other = [n for n in wanted if n not in MACHINE_SETTINGS and there.get(n) != wanted[n]]
        if other:
            raise RunError(
                f"it holds a run with {other[0]} = {there.get(other[0])}, and the study has {wanted[other[0]]}; "
                "choose another --out"
            )
        if run.is_finished:
            return Outcome(member, "done", run.phase.length(run.config))
    except (RunError, ConfigError) as fault:
        return Outcome(member, "failed", 0, str(fault))
    return Outcome(member, "waiting")


def log_path(member: Member) -> Path:
    """Where it is noted what happens to a member: a process prints there."""
    return member.path.parent / "logs" / f"{member.name}.log"


def _look(member: Member, code: int) -> Outcome:
    """How a member ended, from its directory and its process's exit code."""
    epoch, finished, fault = 0, False, ""
    try:
        run = RunDirectory.open(member.path)
        rows = run.rows()
        epoch, finished = _turn(rows), run.is_finished
    except (RunError, ConfigError) as problem:  # never made, or broken
        fault = str(problem)
    if code == 0 and finished:
        return Outcome(member, "done", epoch)
    return Outcome(member, "failed", epoch, _why(code, log_path(member)) or fault or f"exit code {code}")


def _why(code: int, log: Path) -> str:
    """What ended a process: a signal, or what it said last."""
    if code < 0:
        with suppress(ValueError):
            return f"killed by the signal {signal.Signals(-code).name}"
        return f"killed by the signal {-code}"
    with suppress(OSError):
        if log.is_symlink() or not log.is_file():
            return ""
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            lines = file.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return plain(last) if last.startswith("mepol:") else f"exit code {code}: {plain(last)}" if code else ""
    return ""


# --- The summary --------------------------------------------------------------------------------------------------

COLUMNS = ("variant", "seed", "state", "epoch", "samples", *MEASURES, "reason")


def write_summary(outcomes: Sequence[Outcome], out: Path) -> Path:
    """summary.csv: one line per member with its last evaluation."""
    rows = []
    for outcome in outcomes:
        row = None
        with suppress(RunError, ConfigError):
            row = last_measured(RunDirectory.open(outcome.member.path).rows())
        values: dict[str, Any] = dataclasses.asdict(row) if row is not None else {}
        measured = [values.get(name) for name in ("samples", *MEASURES)]
        seed = outcome.member.config.seed
        rows.append((outcome.member.variant, seed, outcome.state, outcome.epoch, *measured, outcome.reason))
    return output_folder(out).write_text("summary.csv", csv_text(COLUMNS, rows))

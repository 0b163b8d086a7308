"""The run directory: what a run leaves behind, and how it is read again.

config.json          every setting
metrics.csv          one row a policy (docs/metrics.md); what was not measured is empty
steps.csv            one row a tried gradient step
policy.safetensors   the newest policy; initial.safetensors is the one it started from
checkpoints/         the newest two states to resume from; *.bad are ones that could not be read
heatmaps/            visits of each evaluated policy: epoch-NNNNN.csv and the picture drawn from it
figures/             the entropy curve, and coverage before and after
lock                 held by the process that works on the run

Nothing is written outside it: a run directory may itself be reached through a symbolic link, but none of the
entries above may be one.
"""

from __future__ import annotations

import csv
import dataclasses
import fcntl
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mepol.algorithm import Epoch, GaussianPolicy
from mepol.errors import ConfigError, RunError
from mepol.exploration.config import ExploreConfig
from mepol.runs.files import read_text, remove_leftovers, sync, write_bytes, write_text
from mepol.runs.policies import load_policy
from mepol.settings import from_json, to_json


@dataclass(frozen=True)
class MetricsRow:
    """One policy. Entropies and KL in nats, times in seconds; None is written as an empty cell."""

    epoch: int
    samples: int  # environment steps spent to reach this policy
    entropy: float | None = None
    kl: float | None = None
    steps: int | None = None
    ess: float | None = None
    learning_rate: float | None = None
    sample_s: float | None = None
    knn_s: float | None = None
    optimise_s: float | None = None
    index: float | None = None
    discrete_entropy: float | None = None
    pooled_entropy: float | None = None
    cells: int | None = None


C = TypeVar("C")
METRICS = tuple(f.name for f in dataclasses.fields(MetricsRow))
TIMES = ("sample_s", "knn_s", "optimise_s")
STEPS = ("epoch", "step", "accepted", "learning_rate", "entropy", "kl", "ess")
FOLDERS = ("checkpoints", "heatmaps", "figures")
ENTRIES = (*FOLDERS, "lock", "config.json", "metrics.csv", "steps.csv", "policy.safetensors", "initial.safetensors")
MAX_CONFIG = 1 << 20  # bytes of a config file
MAX_CSV = 1 << 28  # bytes; a run of a hundred thousand epochs stays below


@dataclass(frozen=True)
class Run:
    """A run directory that exists."""

    path: Path
    config: ExploreConfig

    @staticmethod
    def create(path: Path, config: ExploreConfig) -> Run:
        """Make a new run directory; one that already holds anything is refused, never overwritten.

        config.json comes last: a directory without it is what a crash left of this very function, and is used again.
        """
        run = Run(path, config)
        with writing(path, "; choose another --out"):
            require_unused(path, _is_debris)
            path.mkdir(parents=True, exist_ok=True)
            with run.lock():
                require_unused(path, _is_debris)  # nor has another process used it since
                remove_leftovers(path)
                for folder in FOLDERS:
                    (path / folder).mkdir(exist_ok=True)
                write_text(path / "metrics.csv", _csv_line(METRICS))
                write_text(path / "steps.csv", _csv_line(STEPS))
                write_text(path / "config.json", to_json(config))
        return run

    @staticmethod
    def open(path: Path) -> Run:
        """An existing run, its config checked."""
        if not os.path.isfile(path / "config.json"):  # noqa: PTH113  Path.is_file raises on impossible names
            raise RunError(f"{path} is not a run directory: it has no config.json")
        config = read_json(ExploreConfig, path / "config.json")
        require_trusted(config.env, path)
        return Run(path, config)

    @property
    def policy_path(self) -> Path:
        """Where the newest policy lies."""
        return self.path / "policy.safetensors"

    @property
    def initial_policy_path(self) -> Path:
        """Where the policy of epoch 0 lies."""
        return self.path / "initial.safetensors"

    def load_policy(self) -> GaussianPolicy:
        """The newest policy."""
        return load_policy(self.policy_path)

    def save_policy(self, data: bytes) -> None:
        """Replace the newest policy by the bytes of another."""
        with writing(self.policy_path):
            write_bytes(self.policy_path, data)

    def lock(self) -> AbstractContextManager[None]:
        """Hold the run for this process; a second process is refused."""
        return hold(self.path, ENTRIES)

    def save_checkpoint(self, epoch: int, data: bytes, keep: int = 2) -> None:
        """Write a checkpoint atomically, then forget all but the newest `keep`.

        The rows that led to it reach the disk first: no checkpoint is ever ahead of metrics.csv.
        """
        with writing(self.path / "checkpoints"):
            self.sync_rows()
            write_bytes(self.path / "checkpoints" / f"epoch-{epoch:05d}.safetensors", data)
            for old in self.checkpoints()[keep:]:
                old.unlink(missing_ok=True)

    def sync_rows(self) -> None:
        """Wait until every appended row would survive a power cut."""
        with writing(self.path):
            sync(self.path / "metrics.csv")
            sync(self.path / "steps.csv")

    def checkpoints(self) -> list[Path]:
        """Checkpoint files, the newest first."""
        found = (self.path / "checkpoints").glob("epoch-*.safetensors")
        return sorted((p for p in found if _epoch_of(p) is not None), key=lambda p: _epoch_of(p) or 0, reverse=True)

    def rewind(self, epoch: int) -> None:
        """Make the directory what it was when the policy of `epoch` had just been reached.

        Rows, heatmaps and checkpoints of later policies go, with torn last lines and the temporary files of a
        process that was killed; checkpoints that could not be read are set aside as *.bad, where they cannot crowd
        out good ones. Raises RunError when rows of earlier policies are missing.
        """
        with writing(self.path):
            for folder in (self.path, *(self.path / name for name in FOLDERS)):
                folder.mkdir(exist_ok=True)
                remove_leftovers(folder)
            metrics = _rows_before(epoch, self.path / "metrics.csv", METRICS)
            if [_leading_number(line) for line in metrics[1:]] != list(range(epoch)):
                raise RunError(f"{self.path / 'metrics.csv'} does not have one row for each epoch below {epoch}")
            steps = _rows_before(epoch, self.path / "steps.csv", STEPS)
            write_text(self.path / "metrics.csv", "".join(metrics))
            write_text(self.path / "steps.csv", "".join(steps))
            for path in (self.path / "heatmaps").glob("epoch-*"):
                if (of := _epoch_of(path)) is not None and of >= epoch:
                    path.unlink()
            for path in self.checkpoints():
                if (_epoch_of(path) or 0) > epoch:
                    path.replace(path.with_suffix(".bad"))

    def with_epochs(self, epochs: int) -> Run:
        """The same run with another length, written to its config."""
        return self.with_config(dataclasses.replace(self.config, epochs=epochs))

    def with_config(self, config: ExploreConfig) -> Run:
        """The same run with another config, written to its directory."""
        with writing(self.path / "config.json"):
            write_text(self.path / "config.json", to_json(config))
        return Run(self.path, config)

    def append(self, row: MetricsRow) -> None:
        """Add one line to metrics.csv."""
        self._append("metrics.csv", [dataclasses.astuple(row)])

    def append_steps(self, epoch: Epoch) -> None:
        """Add the epoch's tried steps to steps.csv."""
        rows = (
            (epoch.epoch, i, int(s.accepted), s.learning_rate, s.entropy, s.kl, s.ess)
            for i, s in enumerate(epoch.steps)
        )
        self._append("steps.csv", rows)

    def rows(self) -> list[MetricsRow]:
        """metrics.csv, read back."""
        return read_metrics(self.path / "metrics.csv")

    def visits_path(self, epoch: int) -> Path:
        """Where the visit counts of the policy of `epoch` lie."""
        return self.path / "heatmaps" / f"epoch-{epoch:05d}.csv"

    def save_visits(self, epoch: int, visits: NDArray[np.int64]) -> Path:
        """Write visit counts (bins_0, bins_1), one line a bin of the first axis."""
        path = self.visits_path(epoch)
        with writing(path):
            write_text(path, "".join(_csv_line(line) for line in visits.tolist()))
        return path

    def load_visits(self, epoch: int) -> NDArray[np.int64]:
        """Read back what `save_visits` wrote; anything else is a RunError."""
        path = self.visits_path(epoch)
        try:
            lines = read_text(path, MAX_CSV).splitlines()
            visits = np.array([[int(cell) for cell in line.split(",")] for line in lines], dtype=np.int64)
        except (OSError, ValueError, OverflowError) as fault:
            raise RunError(f"cannot read {path}: {fault}") from fault
        if visits.ndim != 2 or not visits.size or visits.min() < 0:
            raise RunError(f"{path} does not hold a table of visits")
        return visits

    def evaluated_epochs(self) -> list[int]:
        """Epochs whose visits are stored, in order."""
        found = (_epoch_of(path) for path in (self.path / "heatmaps").glob("epoch-*.csv"))
        return sorted(epoch for epoch in found if epoch is not None)

    def _append(self, name: str, rows: Iterable[Iterable[object]]) -> None:
        text = "".join(_csv_line(row) for row in rows)
        with writing(self.path / name), (self.path / name).open("r+", newline="", encoding="utf-8") as file:
            file.seek(0, os.SEEK_END)  # not mode "a", which would make a file that somebody removed without its head
            file.write(text)


@contextmanager
def hold(path: Path, entries: Iterable[str]) -> Iterator[None]:
    """Hold the run in `path` for this process; a second is refused. The system frees it however the first ends.

    entries: what a run writes in its directory; none may be a symbolic link.
    """
    for name in entries:
        if (path / name).is_symlink():
            raise RunError(
                f"{path / name} is a symbolic link, and a run writes only inside its directory; "
                "put the real file or directory in its place"
            )
    with writing(path / "lock", ""):
        handle = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as fault:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
            raise RunError(f"{path} is in use by process {holder}; wait for it, or stop it") from fault
        except OSError as fault:
            raise RunError(f"cannot lock {path}: {fault}") from fault
        with suppress(OSError):  # the number is a courtesy: a full disk must not keep the lock from being held
            os.truncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


@contextmanager
def writing(
    path: Path, remedy: str = "; put that right, and mepol resume goes on from the last checkpoint"
) -> Iterator[None]:
    """Names what the operating system refuses (full, read-only, removed) as a RunError about `path`."""
    try:
        yield
    except OSError as fault:
        raise RunError(f"cannot write {path}: {fault.strerror or fault}{remedy}") from fault


def require_unused(path: Path, is_debris: Callable[[Path], bool]) -> None:
    """RunError where `path` holds anything but what a killed creation of a run may leave."""
    if path.exists() and (not path.is_dir() or any(not is_debris(entry) for entry in path.iterdir())):
        raise RunError(f"{path} already exists and is not empty; choose another --out, resume it, or remove it")


def _is_debris(entry: Path) -> bool:
    """Whether `entry` is what a killed `Run.create` may leave: all but config.json, and nothing with content."""
    heads = {"lock": 32, "metrics.csv": len(_csv_line(METRICS)), "steps.csv": len(_csv_line(STEPS))}
    return is_empty_entry(entry, FOLDERS, heads, ("config.json", *heads))


def is_empty_entry(entry: Path, folders: Iterable[str], sizes: Mapping[str, int], written: Iterable[str]) -> bool:
    """Whether `entry` is an empty one of `folders`, a file of at most its size, or what was being `written`."""
    if entry.is_symlink():
        return False
    if entry.name in folders:
        return entry.is_dir() and not any(entry.iterdir())
    temporary = entry.name.startswith(tuple(f".{name}." for name in written)) and entry.suffix == ".tmp"
    return temporary or (entry.name in sizes and entry.stat().st_size <= sizes[entry.name])


def _rows_before(epoch: int, path: Path, columns: tuple[str, ...]) -> list[str]:
    """The head and the whole lines of a CSV file that begin with a number below `epoch`."""
    try:
        lines = read_text(path, MAX_CSV).splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as fault:
        raise RunError(f"cannot read {path}: {fault}") from fault
    if not lines or lines[0] != _csv_line(columns):
        raise RunError(f"{path} does not start with the columns {', '.join(columns)}")
    whole = [line for line in lines[1:] if line.endswith("\n")]
    return [lines[0], *(line for line in whole if (number := _leading_number(line)) is not None and number < epoch)]


def _leading_number(line: str) -> int | None:
    number = line.split(",", 1)[0]
    return int(number) if number.isdecimal() and len(number) < 19 else None


def require_trusted(name: str, path: Path) -> None:
    """Refuse a stored `module:name` whose module would have to be imported: a stranger's file must not run code.

    A module counts as trusted when it is loaded already or listed in the environment variable MEPOL_MODULES.
    """
    module = name.partition(":")[0] if ":" in name else ""
    if module and module not in sys.modules and module not in os.environ.get("MEPOL_MODULES", "").split(","):
        raise RunError(
            f"{path} asks for {name!r}, which imports the module {module!r}; "
            f"if you trust it, say so with MEPOL_MODULES={module}"
        )


def _epoch_of(path: Path) -> int | None:
    number = path.stem.removeprefix("epoch-")
    return int(number) if number.isdecimal() and len(number) < 19 else None


def read_metrics(path: Path) -> list[MetricsRow]:
    """Rows of a metrics.csv; anything that is not one is a RunError naming the line."""
    try:
        reader = csv.reader(io.StringIO(read_text(path, MAX_CSV), newline=""), strict=True)
        if tuple(next(reader, ())) != METRICS:
            raise RunError(f"{path} does not start with the columns {', '.join(METRICS)}")
        return [_parse(cells, path, line) for line, cells in enumerate(reader, start=2)]
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        raise RunError(f"cannot read {path}: {fault}") from fault


def _parse(cells: list[str], path: Path, line: int) -> MetricsRow:
    try:
        values = [_number(name, text) for name, text in zip(METRICS, cells, strict=True)]
    except ValueError as fault:
        raise RunError(f"{path}, line {line}: {fault}") from fault
    return MetricsRow(*values)  # type: ignore[arg-type]


def _number(name: str, text: str) -> float | int | None:
    if text == "" and name not in ("epoch", "samples"):
        return None
    return int(text) if name in ("epoch", "samples", "steps", "cells") else float(text)


def _csv_line(values: Iterable[object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(["" if v is None else v for v in values])
    return buffer.getvalue()


def read_json(kind: type[C], path: Path) -> C:
    """`from_json` of a file."""
    try:
        return from_json(kind, read_text(path, MAX_CONFIG))
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigError(f"cannot read {path}: {fault}") from fault
    except ConfigError as fault:
        raise ConfigError(f"{path}: {fault}") from fault

"""The run directory: what a run leaves behind, and how it is read again.

config.json          every setting
metrics.csv          one row a policy (docs/metrics.md); what was not measured is empty
steps.csv            one row a tried gradient step
policy.safetensors   the newest policy; initial.safetensors is the one it started from
heatmaps/            visits of each evaluated policy: epoch-NNNNN.csv and the picture drawn from it
figures/             the entropy curve, and coverage before and after
"""

from __future__ import annotations

import csv
import dataclasses
import fcntl
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mepol.config import ExploreConfig, read_json, to_json
from mepol.errors import RunError
from mepol.files import write_bytes, write_text
from mepol.mepol import Epoch
from mepol.policy import GaussianPolicy, load_policy


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


METRICS = tuple(f.name for f in dataclasses.fields(MetricsRow))
TIMES = ("sample_s", "knn_s", "optimise_s")
STEPS = ("epoch", "step", "accepted", "learning_rate", "entropy", "kl", "ess")


@dataclass(frozen=True)
class Run:
    """A run directory that exists."""

    path: Path
    config: ExploreConfig

    @staticmethod
    def create(path: Path, config: ExploreConfig) -> Run:
        """Make a new run directory; one that already holds anything is refused, never overwritten."""
        try:
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise RunError(f"{path} already exists and is not empty; choose another --out, or remove it")
            (path / "heatmaps").mkdir(parents=True)
            (path / "figures").mkdir()
            (path / "checkpoints").mkdir()
            write_text(path / "config.json", to_json(config))
            write_text(path / "metrics.csv", _csv_line(METRICS))
            write_text(path / "steps.csv", _csv_line(STEPS))
        except OSError as fault:
            raise RunError(f"cannot write the run directory {path}: {fault}") from fault
        return Run(path, config)

    @staticmethod
    def open(path: Path) -> Run:
        """An existing run, its config checked."""
        if not os.path.isfile(path / "config.json"):  # noqa: PTH113  Path.is_file raises on impossible names
            raise RunError(f"{path} is not a run directory: it has no config.json")
        return Run(path, read_json(ExploreConfig, path / "config.json"))

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
        try:
            write_bytes(self.policy_path, data)
        except OSError as fault:
            raise RunError(f"cannot write {self.policy_path}: {fault}") from fault

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run for this process; a second process is refused. The system frees it however the first ends."""
        try:
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as fault:
            raise RunError(f"cannot lock {self.path}: {fault}") from fault
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as fault:
                holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
                raise RunError(f"{self.path} is in use by process {holder}; wait for it, or stop it") from fault
            os.truncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(handle)

    def save_checkpoint(self, epoch: int, data: bytes, keep: int = 2) -> None:
        """Write a checkpoint atomically, then forget all but the newest `keep`."""
        try:
            write_bytes(self.path / "checkpoints" / f"epoch-{epoch:05d}.safetensors", data)
            for old in self.checkpoints()[keep:]:
                old.unlink(missing_ok=True)
        except OSError as fault:
            raise RunError(f"cannot write a checkpoint of {self.path}: {fault}") from fault

    def checkpoints(self) -> list[Path]:
        """Checkpoint files, the newest first."""
        found = (self.path / "checkpoints").glob("epoch-*.safetensors")
        return sorted((p for p in found if _epoch_of(p) is not None), key=lambda p: _epoch_of(p) or 0, reverse=True)

    def rewind(self, epoch: int) -> None:
        """Forget every row and heatmap of policies from `epoch` on, torn last lines included."""
        for name in ("metrics.csv", "steps.csv"):
            lines = (self.path / name).read_text(encoding="utf-8").splitlines(keepends=True)
            kept = [line for line in lines[1:] if line.endswith("\n") and int(line.split(",", 1)[0]) < epoch]
            write_text(self.path / name, "".join(lines[:1] + kept))
        for path in (self.path / "heatmaps").glob("epoch-*"):
            if (of := _epoch_of(path)) is not None and of >= epoch:
                path.unlink()

    def with_epochs(self, epochs: int) -> Run:
        """The same run with another length, written to its config."""
        config = dataclasses.replace(self.config, epochs=epochs)
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
        write_text(path, "".join(_csv_line(line) for line in visits.tolist()))
        return path

    def load_visits(self, epoch: int) -> NDArray[np.int64]:
        """Read back what `save_visits` wrote."""
        return np.loadtxt(self.visits_path(epoch), delimiter=",", dtype=np.int64, ndmin=2)

    def evaluated_epochs(self) -> list[int]:
        """Epochs whose visits are stored, in order."""
        found = (_epoch_of(path) for path in (self.path / "heatmaps").glob("epoch-*.csv"))
        return sorted(epoch for epoch in found if epoch is not None)

    def _append(self, name: str, rows: Iterable[Iterable[object]]) -> None:
        try:
            with (self.path / name).open("a", newline="", encoding="utf-8") as file:
                file.write("".join(_csv_line(row) for row in rows))
        except OSError as fault:
            raise RunError(f"cannot write {self.path / name}: {fault}") from fault


def _epoch_of(path: Path) -> int | None:
    number = path.stem.removeprefix("epoch-")
    return int(number) if number.isdecimal() and len(number) < 19 else None


def read_metrics(path: Path) -> list[MetricsRow]:
    """Rows of a metrics.csv; anything that is not one is a RunError naming the line."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if reader.fieldnames is None or tuple(reader.fieldnames) != METRICS:
                raise RunError(f"{path} does not start with the columns {', '.join(METRICS)}")
            return [_parse(record, path, line) for line, record in enumerate(reader, start=2)]
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        raise RunError(f"cannot read {path}: {fault}") from fault


def _parse(record: dict[str, str], path: Path, line: int) -> MetricsRow:
    whole = {"epoch", "samples", "steps", "cells"}
    try:
        cells = {name: record[name] for name in METRICS}
        values = {n: None if text == "" else (int if n in whole else float)(text) for n, text in cells.items()}
    except (ValueError, TypeError) as fault:
        raise RunError(f"{path}, line {line}: {fault}") from fault
    return MetricsRow(**values)  # type: ignore[arg-type]


def _csv_line(values: Iterable[object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(["" if v is None else v for v in values])
    return buffer.getvalue()

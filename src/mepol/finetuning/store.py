"""The directory of a fine-tuning run.

config.json          every setting
metrics.csv          one row a policy (docs/finetune.md); what was not measured is empty
initial.safetensors  the exploration policy it started from, where there was one
policy.safetensors   the newest policy (TRPO and PPO)
checkpoints/         the newest two states to resume from
replay/              what SAC and the rivals have stored, one file an iteration, as long as the buffer keeps it
lock                 held by the process that works on the run
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from mepol.errors import RunError
from mepol.finetuning.config import FinetuneConfig
from mepol.runs.directory import MAX_CONFIG, hold, is_empty_entry, read_json, require_trusted, require_unused, writing
from mepol.runs.files import read_text, remove_leftovers, sync, write_bytes, write_text
from mepol.settings import to_json

FOLDERS = ("checkpoints", "replay")
ENTRIES = (*FOLDERS, "lock", "config.json", "metrics.csv", "initial.safetensors", "policy.safetensors")
MAX_CSV = 1 << 28  # bytes


@dataclass(frozen=True)
class FinetuneRow:
    """One policy; None is written as an empty cell. Formulas are in docs/finetune.md."""

    iteration: int
    samples: int  # environment steps spent to reach this policy
    average_return: float | None = None
    success_rate: float | None = None
    steps_to_goal: float | None = None
    episodes: int | None = None
    sample_s: float | None = None
    learn_s: float | None = None


COLUMNS = tuple(f.name for f in dataclasses.fields(FinetuneRow))
_WHOLE = ("iteration", "samples", "episodes")


@dataclass(frozen=True)
class FinetuneRun:
    """A run directory that exists."""

    path: Path
    config: FinetuneConfig

    @staticmethod
    def create(path: Path, config: FinetuneConfig, explorer: bytes | None) -> FinetuneRun:
        """Make a new run directory; one that already holds anything is refused, never overwritten.

        config.json comes last: a directory without it is what a crash left of this very function, and is used again.
        """

        def is_debris(entry: Path) -> bool:
            if entry.name == "initial.safetensors":
                return entry.is_file() and not entry.is_symlink() and entry.read_bytes() == explorer
            sizes = {"lock": 32, "metrics.csv": len(_line(COLUMNS))}
            return is_empty_entry(entry, FOLDERS, sizes, ("config.json", "initial.safetensors", *sizes))

        run = FinetuneRun(path, config)
        with writing(path, "; choose another --out"):
            require_unused(path, is_debris)
            path.mkdir(parents=True, exist_ok=True)
            with run.lock():
                require_unused(path, is_debris)  # nor has another process used it since
                remove_leftovers(path)
                for folder in FOLDERS:
                    (path / folder).mkdir(exist_ok=True)
                if explorer is not None:
                    write_bytes(path / "initial.safetensors", explorer)
                write_text(path / "metrics.csv", _line(COLUMNS))
                write_text(path / "config.json", to_json(config))
        return run

    @staticmethod
    def open(path: Path) -> FinetuneRun:
        """An existing run, its config checked."""
        if not (path / "config.json").is_file():
            raise RunError(f"{path} is not a run directory: it has no config.json")
        config = read_json(FinetuneConfig, path / "config.json")
        for name in (config.task, config.env):
            require_trusted(name or "", path)
        return FinetuneRun(path, config)

    @property
    def explorer_path(self) -> Path:
        """Where the exploration policy lies that the run started from."""
        return self.path / "initial.safetensors"

    def lock(self) -> AbstractContextManager[None]:
        """Hold the run for this process; a second process is refused."""
        return hold(self.path, ENTRIES)

    def append(self, row: FinetuneRow) -> None:
        """Add one line to metrics.csv."""
        with writing(self.path / "metrics.csv", ""), (self.path / "metrics.csv").open("r+", encoding="utf-8") as file:
            file.seek(0, os.SEEK_END)
            file.write(_line(dataclasses.astuple(row)))

    def rows(self) -> list[FinetuneRow]:
        """metrics.csv, read back."""
        path = self.path / "metrics.csv"
        try:
            lines = list(csv.reader(io.StringIO(read_text(path, MAX_CSV)), strict=True))
            if not lines or tuple(lines[0]) != COLUMNS:
                raise RunError(f"{path} does not start with the columns {', '.join(COLUMNS)}")
            return [_row(cells) for cells in lines[1:]]
        except (OSError, ValueError, csv.Error) as fault:
            raise RunError(f"cannot read {path}: {fault}") from fault

    def save_checkpoint(self, iteration: int, state: bytes, policy: bytes | None, keep: int = 2) -> None:
        """Write the state that `iteration` starts from, then forget all but the newest `keep`."""
        with writing(self.path, ""):
            sync(self.path / "metrics.csv")  # no checkpoint is ever ahead of its rows
            write_bytes(self.path / "checkpoints" / f"iteration-{iteration:05d}.safetensors", state)
            if policy is not None:
                write_bytes(self.path / "policy.safetensors", policy)
            for old in self.checkpoints()[keep:]:
                old.unlink(missing_ok=True)

    def checkpoints(self) -> list[Path]:
        """Checkpoint files, the newest first."""
        return sorted((self.path / "checkpoints").glob("iteration-*.safetensors"), key=_number, reverse=True)

    def save_segment(self, number: int, data: bytes, keep: int) -> None:
        """Write what was stored in iteration `number`, then forget all but the newest `keep` files."""
        with writing(self.path / "replay", ""):
            write_bytes(self.path / "replay" / f"iteration-{number:05d}.safetensors", data)
            for old in self.segments()[:-keep]:
                old.unlink(missing_ok=True)

    def segments(self) -> list[Path]:
        """Replay files, the oldest first."""
        return sorted((self.path / "replay").glob("iteration-*.safetensors"), key=_number)

    def rewind(self, iteration: int) -> None:
        """Make the directory what it was when `iteration` was about to begin."""
        with writing(self.path, ""):
            for folder in (self.path, *(self.path / name for name in FOLDERS)):
                folder.mkdir(exist_ok=True)
                remove_leftovers(folder)
            text = read_text(self.path / "metrics.csv", MAX_CSV)
            whole = [line for line in text.splitlines(keepends=True)[1:] if line.endswith("\n")]
            if len(whole) < iteration or any(not w.startswith(f"{i},") for i, w in enumerate(whole[:iteration])):
                raise RunError(
                    f"{self.path / 'metrics.csv'} does not have one row for each iteration below {iteration}"
                )
            write_text(self.path / "metrics.csv", _line(COLUMNS) + "".join(whole[:iteration]))
            for path in (*self.checkpoints(), *self.segments()):
                if _number(path) > iteration:  # segment i is what iteration i - 1 stored, 0 the warm-up
                    path.unlink()

    def with_iterations(self, iterations: int) -> FinetuneRun:
        """The same run with another length, written to its config."""
        config = dataclasses.replace(self.config, iterations=iterations)
        with writing(self.path / "config.json", ""):
            write_text(self.path / "config.json", to_json(config))
        return FinetuneRun(self.path, config)


def is_finetune_run(path: Path) -> bool:
    """Whether the run in `path` learnt a task; what cannot be told is left to whoever opens it."""
    try:
        return "task" in json.loads(read_text(path / "config.json", MAX_CONFIG))
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def _number(path: Path) -> int:
    digits = path.stem.removeprefix("iteration-")
    return int(digits) if digits.isdecimal() and len(digits) < 19 else -1


def _row(cells: list[str]) -> FinetuneRow:
    values = [
        None if text == "" else int(text) if name in _WHOLE else float(text)
        for name, text in zip(COLUMNS, cells, strict=True)
    ]
    return FinetuneRow(*values)  # type: ignore[arg-type]


def _line(values: tuple[object, ...]) -> str:
    return ",".join("" if v is None else str(v) for v in values) + "\n"

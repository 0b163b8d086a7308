"""What two runs must have in common to count as the same run, whichever way they came about."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from mepol.runs.callbacks import Progress


def timeless(path: Path) -> list[dict[str, str]]:
    """metrics.csv as text, without the columns of seconds."""
    with (path / "metrics.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if not k.endswith("_s")} for row in csv.DictReader(file)]


def files_of(path: Path) -> dict[str, bytes]:
    """Every file of a run by its name."""
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def assert_same_run(
    a: Path, b: Path, *, settings: bool = True, but: tuple[str, ...] = (), old_end: int | None = None
) -> None:
    """Equal in every byte, but for the columns of seconds and the files named in `but`.

    old_end: epoch at which run `a` ended once; it keeps what was measured there, and `b` never measured it.

    settings: whether they were made with the same ones, which say which run it is. Checkpoints are compared by the
    newest alone: which older one is kept depends on where a run was stopped.
    """
    but = but if settings else (*but, "config.json")
    rows, others = timeless(a), timeless(b)
    if old_end is not None:
        kept, none = rows[old_end], others[old_end]
        assert (kept["index"] != "", none["index"]) == (True, "")
        rows[old_end] = {name: value and none[name] and value for name, value in kept.items()}
        but = (*but, *(f"heatmaps/epoch-{old_end:05d}.{kind}" for kind in ("csv", "png")))
    assert rows == others
    ours, theirs = (
        {k: v for k, v in files_of(p).items() if k != "metrics.csv" and k not in but and "checkpoints" not in k}
        for p in (a, b)
    )
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []
    newest = [max((p / "checkpoints").glob("*.safetensors")) for p in (a, b)]
    assert newest[0].name == newest[1].name
    states = [p.read_bytes() for p in newest] if settings else [tensors_of(p) for p in newest]
    assert states[0] == states[1]


def tensors_of(path: Path) -> dict[str, bytes]:
    """The tensors of a checkpoint, whichever run it is of."""
    return {name: tensor.numpy().tobytes() for name, tensor in load_file(path).items()}


class Stopped(Exception):
    """What a callback of these tests raises."""


def stop_after(turn: int) -> Callable[[Progress], Any]:
    """A callback that raises once the turn is over."""

    def callback(progress: Progress) -> None:
        if progress.turn == turn:
            raise Stopped

    return callback

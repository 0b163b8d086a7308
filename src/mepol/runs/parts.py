"""What a learner remembers and a checkpoint is too small for: tensors in files of their own, one a turn (`Part`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from mepol.errors import CheckpointError
from mepol.runs.checkpoint import Part
from mepol.runs.directory import RunDirectory
from mepol.runs.tensors import DIGEST, Layout, TensorFormat, digest_in, tensor_bytes

FORMAT = "mepol-replay-1"
FILE = TensorFormat(
    FORMAT,
    CheckpointError,
    source="a part of a replay memory from",
    foreign="is not a part of a replay memory",
    not_finite="holds NaN or infinite values",
)


def write_part(run: RunDirectory[Any, Any], number: int, rows: int, tensors: Mapping[str, Tensor]) -> Part:
    """Write what was stored just before turn `number`, `rows` steps of it; returns what a checkpoint names it by."""
    data = tensor_bytes(tensors, {"format": FORMAT})
    run.save_part(number, data)
    return Part(number, rows, digest_in(data))


def read_part(part: Part, path: Path, fits: Callable[[Layout], bool]) -> dict[str, Tensor]:
    """The tensors of `path`; a CheckpointError unless it is the file that `part` names, with a layout that `fits`."""

    def check(header: dict[str, str], layout: Layout) -> None:
        if header.get(DIGEST) != part.digest or not fits(layout):
            raise CheckpointError(f"{path} is not the part of the replay memory that the checkpoint rests on")

    return FILE.read(path, check)[1]

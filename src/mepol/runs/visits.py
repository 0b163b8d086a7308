"""Visit counts as a file: one line per bin of the first axis, nothing else in it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mepol.envs.coordinates import MAX_BINS
from mepol.errors import RunError
from mepol.runs.files import read_text
from mepol.runs.tables import csv_text

MAX_BYTES = 1 << 26


def visits_text(visits: NDArray[np.int64]) -> str:
    """Visit counts (bins_0, bins_1) as the text of a file."""
    first, *rest = visits.tolist()
    return csv_text([str(value) for value in first], rest)


def read_visits(path: Path) -> NDArray[np.int64]:
    """(bins_0, bins_1) what `visits_text` wrote; anything else is a RunError."""
    try:
        lines = read_text(path, MAX_BYTES).split("\n", MAX_BINS + 1)[: MAX_BINS + 1]  # no more than can be
        lines = lines[:-1] if lines[-1] == "" else lines
        widths = {line.count(",") for line in lines}
        if not lines or len(lines) > MAX_BINS or len(widths) > 1 or max(widths) >= MAX_BINS:
            raise ValueError(f"it is not a table of at most {MAX_BINS} by {MAX_BINS} cells")
        if not all(_is_counts(line) for line in lines):
            raise ValueError("it holds something that is not a count")
        visits = np.stack([np.fromstring(line, dtype=np.int64, sep=",") for line in lines])
    except (OSError, ValueError, OverflowError) as fault:
        raise RunError(f"cannot read {path}: {fault}") from fault
    if visits.shape[1] != lines[0].count(",") + 1 or visits.min() < 0:
        raise RunError(f"{path} does not hold a table of visits")
    return visits


def _is_counts(line: str) -> bool:
    return re.fullmatch(r"[0-9]{1,18}(,[0-9]{1,18})*", line) is not None

"""What others wrote into a run's figures/: films, and the map of goals; read within bounds, as a stranger's."""

from __future__ import annotations

import base64
import csv
import io
import math
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np

from mepol.errors import RunError
from mepol.runs.files import read_text

MAX_FILM = 8 << 20  # bytes of one film, and of all films of a run: a page is to be mailed, and read on a phone
MAX_FILMS = 20 << 20
MAX_GOALS = 1 << 22  # bytes of goals.csv
MAX_SIDE = 512  # cells along a side of the map of goals
KINDS = {".mp4": ("video/mp4", slice(4, 8), b"ftyp"), ".gif": ("image/gif", slice(0, 4), b"GIF8")}
"""Suffix -> type of the film, and which bytes of it say so."""


def films(folder: Path) -> list[dict[str, Any]]:
    """Films in `folder`, by name: `uri` holds one of at most MAX_FILM bytes, others are only named with their size.

    No link is followed: a page that is given away must not hold a file from elsewhere on this machine.
    """
    found: list[dict[str, Any]] = []
    room = MAX_FILMS
    if folder.is_symlink() or not folder.is_dir():
        return found
    for path in sorted(path for path in folder.iterdir() if path.suffix in KINDS):
        (kind, place, magic), most = KINDS[path.suffix], min(MAX_FILM, room)
        data, size = _beginning(path, most)
        if data[place] != magic:
            continue  # empty, being written, or something else
        whole = len(data) == size <= most
        room -= size if whole else 0
        uri = f"data:{kind};base64,{base64.b64encode(data).decode()}" if whole else None
        found.append({"name": path.name, "kind": kind, "bytes": size, "uri": uri})
    return found


def _beginning(path: Path, most: int) -> tuple[bytes, int]:
    """At most `most` bytes of a plain file and its size; nothing of a link, a folder, a device, or what is gone."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b"", 0
    try:
        found = os.fstat(handle)
        return (os.read(handle, most), found.st_size) if stat.S_ISREG(found.st_mode) else (b"", 0)
    finally:
        os.close(handle)


def goals(path: Path) -> dict[str, Any] | None:
    """The map that `mepol goals` wrote as one line per goal, as a grid again; None where there is none.

    `hit_rate` and `steps` are (bins_0, bins_1), row by row, None where no goal is, or none was met.
    """
    if not path.exists():
        return None
    try:
        lines = list(csv.reader(io.StringIO(read_text(path, MAX_GOALS), newline=""), strict=True))
        head, *rows = lines
        if head[1:] == ["hit_rate", "steps_to_hit"]:  # of one coordinate: the second axis is a cell without a name
            head, rows = [head[0], "", *head[1:]], [[*row[:1], "0.5", *row[1:]] for row in rows]
        if head[2:] != ["hit_rate", "steps_to_hit"] or not rows:
            raise ValueError("it is not a table of goals")
        table = np.array([[float(text) if text else math.nan for text in row] for row in rows])
        if table.shape[1:] != (4,) or not np.isfinite(table[:, :3]).all():
            raise ValueError("it is not a table of goals")
        axes = [_axis(table[:, side]) for side in (0, 1)]
    except (OSError, ValueError, csv.Error) as fault:
        raise RunError(f"cannot read {path}: {fault}; mepol goals writes it again") from fault
    bins = tuple(len(centres) for centres, _ in axes)
    cells = np.ravel_multi_index((axes[0][1], axes[1][1]), bins)
    maps = np.full((2, bins[0] * bins[1]), math.nan)
    maps[:, cells] = table[:, 2:].T
    halves = [(centres[-1] - centres[0]) / max(len(centres) - 1, 1) / 2 or 0.5 for centres, _ in axes]
    return {
        "grid": {
            "names": head[:2],
            "low": [centres[0] - half for (centres, _), half in zip(axes, halves, strict=True)],
            "high": [centres[-1] + half for (centres, _), half in zip(axes, halves, strict=True)],
            "bins": bins,
        },
        "hit_rate": maps[0].tolist(),
        "steps": maps[1].tolist(),
        "mean": float(table[:, 2].mean()),
        "goals": len(rows),
        "met": int(np.count_nonzero(table[:, 2] > 0)),
    }


def _axis(values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[list[float], np.ndarray[Any, np.dtype[np.int64]]]:
    """Evenly spaced centres of the cells along a side, and the number of each value's cell.

    Cells that are no goal are not in the table: the smallest distance of two that are is the width of a cell.
    """
    known = np.unique(values)
    width = float(np.diff(known).min()) if len(known) > 1 else 1.0
    number = np.rint((values - known[0]) / width).astype(np.int64)
    if number.max() >= MAX_SIDE:
        raise ValueError(f"its goals are not cells of a grid of at most {MAX_SIDE} by {MAX_SIDE}")
    count = int(number.max()) + 1
    return np.linspace(known[0], known[-1], count).tolist(), number

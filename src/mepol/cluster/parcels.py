"""A run directory on its way: the files that have changed since they were last sent, in an order that is safe.

Whoever is killed while a parcel is unpacked leaves a directory that a run may be begun or resumed in, as a run does
that is killed while it writes: a new one appears at once and whole, no checkpoint is ever ahead of metrics.csv, and
the row that says that the run is finished comes after all else.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path, PurePosixPath

from mepol.errors import RunError
from mepol.runs.files import SUFFIX, Door, output_folder

Parcel = tuple[tuple[str, bytes | None], ...]
"""Names, relative, and contents, to be written in this order; None: to be removed."""
TABLES = ("steps.csv", "metrics.csv")


class Outbox:
    """The sender's side of one directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._sent: dict[str, tuple[int, int]] = {}

    def changes(self, *, finished: bool = False) -> Parcel:
        """What is new since the last time. finished: whether the last row of metrics.csv is the run's last."""
        there = {name: (path.stat().st_mtime_ns, path.stat().st_size) for name, path in _files(self._root)}
        changed = [name for name in there if self._sent.get(name) != there[name]]
        data = {name: (self._root / name).read_bytes() for name in changed}
        gone = [name for name in self._sent if name not in there]
        parcel: list[tuple[str, bytes | None]] = []
        tables = [name for name in TABLES if name in data]
        parcel += [(name, _but_the_last(data[name]) if finished else data[name]) for name in tables]
        parcel += [(name, content) for name, content in data.items() if name not in TABLES]
        parcel += [(name, data[name]) for name in tables if finished]
        self._sent = there
        return (*parcel, *((name, None) for name in gone))


def pack(root: Path) -> Parcel:
    """All of a directory; nothing where there is none."""
    return Outbox(root).changes()


def unpack(parcel: Parcel, root: Path) -> None:
    """Do in the run directory `root` what the parcel says; one that is not there yet is made beside it, and renamed."""
    fresh = not (root / "config.json").exists()
    place = root.with_name(f".{root.name}{SUFFIX}") if fresh else root
    try:
        if fresh and place.exists():  # what is left of one who was killed
            shutil.rmtree(place)
        door: Door = output_folder(place)
        for name, content in parcel:
            for folder in reversed(PurePosixPath(name).parents[:-1]):
                door.folder(str(folder))
            if content is None:
                door.remove(name)
            else:
                door.write(name, content)
        if fresh:
            os.rename(place, root)  # noqa: PTH104  one that is there and not empty is refused
    except OSError as fault:
        raise RunError(f"cannot write {root}: {fault.strerror or fault}; remove it, or choose another --out") from fault


def _files(root: Path) -> list[tuple[str, Path]]:
    found = ((path.relative_to(root).as_posix(), path) for path in sorted(root.rglob("*")))
    return [(n, p) for n, p in found if p.is_file() and not p.is_symlink() and n != "lock" and not n.endswith(SUFFIX)]


def _but_the_last(text: bytes) -> bytes:
    """A table without its last line."""
    return text[: text.rstrip(b"\n").rfind(b"\n") + 1]

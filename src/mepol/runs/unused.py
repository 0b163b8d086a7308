"""Whether a directory may become a run: one that holds anything is never overwritten."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from mepol.errors import RunError
from mepol.runs.files import require_place
from mepol.runs.lock import is_lock

FOLDERS = ("checkpoints", "replay", "heatmaps", "figures")
"""Folders of a run directory."""


def require_unused(path: Path, tables: Mapping[str, str]) -> None:
    """RunError where `path` holds anything but what a killed `create` may leave, or where it cannot be made.

    Nothing is written, so that it can be asked before any work is done.
    """
    require_place(path)
    if path.exists() and (not path.is_dir() or any(not _is_debris(entry, tables, path) for entry in path.iterdir())):
        raise RunError(f"{path} already exists and is not empty; choose another --out, resume it, or remove it")


def _is_debris(entry: Path, tables: Mapping[str, str], path: Path) -> bool:
    """Whether `entry` is what a killed `create` may leave: all but config.json, and nothing with content of its own."""
    if entry.is_symlink():
        return False
    if entry.is_dir():
        return entry.name in FOLDERS and not any(entry.iterdir())
    if not entry.is_file():
        return False
    if entry.name == "lock":
        return is_lock(entry)
    if entry.name in tables:
        return entry.stat().st_size == len(tables[entry.name]) and entry.read_text() == tables[entry.name]
    if entry.name in ("domain.json", "initial.safetensors"):  # written after the tables, never without them
        return all((path / name).is_file() for name in tables)
    written = ("config.json", "domain.json", "initial.safetensors", *tables)
    return re.fullmatch(rf"\.({'|'.join(map(re.escape, written))})\.[0-9a-f]{{8}}\.mepol-tmp", entry.name) is not None

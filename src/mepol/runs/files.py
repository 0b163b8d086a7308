"""Writing files so that a crash leaves the old one or the new one, never half of either; equal content, equal bytes.

`Door` is the one way in which a directory of ours is written. Nothing outside it is ever touched: no entry below it is
followed where it is a link, a file that has a second name (a hard link) or a pipe is refused, and names cannot climb
out. `write_bytes` is for a path that the user has just typed.

Reading, here and in tensors.py, is as if a stranger had made the file: no pipes, no devices, no more than asked for.
"""

from __future__ import annotations

import os
import secrets
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from mepol.errors import ConfigError, RunError

MAX_TOML = 1 << 20  # bytes
SUFFIX = ".mepol-tmp"  # of files that are being written
_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE
_GROW = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | _SAFE
_LOOK = os.O_RDONLY | os.O_NONBLOCK | _SAFE


class Door:
    """The way into the directory `root`, which must exist and may itself be reached through a link.

    Names are relative (`checkpoints/epoch-00001.safetensors`). What the system refuses (full, read-only, removed) and
    what is not a plain file of ours is a RunError that ends in `remedy`.
    """

    def __init__(
        self, root: Path, remedy: str = "; put that right, and mepol resume goes on from the last checkpoint"
    ) -> None:
        self.root, self.remedy = root, remedy

    def write(self, name: str, data: bytes) -> Path:
        """Replace the file `name` atomically: temporary file beside it, fsync, rename, fsync of the folder."""
        with self._inside(name) as (folder, last):
            self._require_plain(folder, last, name)
            temporary = f".{last}.{secrets.token_hex(4)}{SUFFIX}"
            handle = os.open(temporary, _NEW, 0o644, dir_fd=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, last, src_dir_fd=folder, dst_dir_fd=folder)
                os.fsync(folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
        return self.root / name

    def write_text(self, name: str, text: str) -> Path:
        """Replace the file `name` atomically with UTF-8 text; a lone surrogate is written as `?`."""
        return self.write(name, text.encode("utf-8", errors="replace"))

    def append(self, name: str, text: str) -> None:
        """Add `text` to the end of the file `name`, which must be there: one that somebody removed is not made anew."""
        with self._inside(name) as (folder, last):
            self._require_plain(folder, last, name)
            handle = os.open(last, _GROW, dir_fd=folder)
            with os.fdopen(handle, "wb", buffering=0) as file:
                rest = memoryview(text.encode())
                while rest:
                    rest = rest[file.write(rest) or 0 :]

    def open_log(self, name: str) -> int:
        """A descriptor that adds to the plain file `name`, which is made where it is not there; to be closed."""
        with self._inside(name) as (folder, last):
            self._require_plain(folder, last, name)
            return os.open(last, _GROW | os.O_CREAT, 0o644, dir_fd=folder)

    def sync(self, name: str) -> None:
        """Wait until what was appended to `name` would survive a power cut."""
        with self._inside(name) as (folder, last):
            handle = os.open(last, _LOOK, dir_fd=folder)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def remove(self, name: str) -> None:
        """Remove the file `name`, where it is there; a link is removed, never what it points to."""
        with self._inside(name) as (folder, last), suppress(FileNotFoundError):
            os.unlink(last, dir_fd=folder)

    def rename(self, name: str, new: str) -> None:
        """Give the file `name` the name `new` in the same folder."""
        with self._inside(name) as (folder, last):
            os.replace(last, PurePosixPath(new).name, src_dir_fd=folder, dst_dir_fd=folder)

    def require(self, *names: str) -> None:
        """RunError unless each file is there as a plain one of ours, or not at all: before anything is changed."""
        for name in names:
            with self._inside(name) as (folder, last):
                self._require_plain(folder, last, name)

    def folder(self, name: str) -> None:
        """Make the folder `name`, unless it is there."""
        with self._inside(name) as (folder, last), suppress(FileExistsError):
            os.mkdir(last, dir_fd=folder)
        with self._inside(f"{name}/x"):  # a link or a file in its place is refused
            pass

    def remove_leftovers(self, *folders: str) -> None:
        """Remove the temporary files that a killed `write` left in the root and in `folders`."""
        for name in ("", *folders):
            with self._inside(f"{name}/x" if name else "x") as (folder, _):
                for entry in os.listdir(folder):  # noqa: PTH208  a descriptor, not a path
                    if entry.startswith(".") and entry.endswith((SUFFIX, ".tmp")):
                        with suppress(OSError):
                            os.unlink(entry, dir_fd=folder)

    @contextmanager
    def _inside(self, name: str) -> Iterator[tuple[int, str]]:
        """The folder of `name` as an open descriptor, reached without following any link, and the last part."""
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or PurePosixPath(name).is_absolute():
            raise RunError(f"{name!r} is not the name of a file in {self.root}")
        try:
            at = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                for part in parts[:-1]:
                    below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | _SAFE, dir_fd=at)
                    os.close(at)
                    at = below
                yield at, parts[-1]
            finally:
                os.close(at)
        except OSError as fault:
            if any((self.root / Path(*parts[: n + 1])).is_symlink() for n in range(len(parts))):
                raise self._foreign(name, "is a symbolic link") from fault
            raise RunError(f"cannot write {self.root / name}: {fault.strerror or fault}{self.remedy}") from fault

    def _require_plain(self, folder: int, last: str, name: str) -> None:
        """RunError where `last` is there and is not a plain file with this one name."""
        try:
            found = os.stat(last, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISLNK(found.st_mode):
            raise self._foreign(name, "is a symbolic link")
        if not stat.S_ISREG(found.st_mode):
            raise self._foreign(name, "is not a plain file")
        if found.st_nlink > 1:
            raise self._foreign(name, "has a second name elsewhere (a hard link)")

    def _foreign(self, name: str, what: str) -> RunError:
        return RunError(
            f"{self.root / name} {what}, and nothing is written outside {self.root}; "
            "put the real file or directory in its place"
        )


def write_bytes(path: Path, data: bytes) -> Path:
    """Replace the file at a path that the user gave, atomically; RunError where that is refused."""
    return Door(path.parent, "").write(path.name, data)


def sync(path: Path) -> None:
    """Wait until what was written to the file or directory `path` would survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def require_file(path: Path) -> None:
    """OSError unless `path` is an ordinary file: opening a named pipe would wait for ever, a device never ends."""
    if not os.path.isfile(path):  # noqa: PTH113  Path.is_file raises on impossible names
        raise FileNotFoundError(f"{path} is a directory, pipe or device" if path.exists() else f"{path} does not exist")


def read_text(path: Path, limit: int) -> str:
    """The UTF-8 text of an ordinary file of at most `limit` bytes; OSError or UnicodeDecodeError otherwise."""
    require_file(path)
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise OSError(f"{path} is larger than {limit} bytes")
        return file.read().decode()  # not read(limit), which would set aside that many bytes at once


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The plain values of a TOML file; ConfigError where it is none. what: what it should hold, `the study`."""
    try:
        return tomllib.loads(read_text(path, MAX_TOML))
    except (OSError, ValueError, RecursionError) as fault:  # ValueError: not UTF-8, not TOML, a number of 5000 digits
        raise ConfigError(f"cannot read {what} {path}: {fault}") from fault


def require_place(path: Path) -> None:
    """RunError unless the folder `path` can be written, or made; nothing is made to find out."""
    reason = ""
    for place in (path.absolute(), *path.absolute().parents):
        try:
            is_folder = stat.S_ISDIR(place.stat().st_mode)
        except FileNotFoundError:
            continue
        except OSError as fault:  # below a file, too long a name, a folder that may not be searched
            reason = fault.strerror or str(fault)
            break
        writable = os.access(place, os.W_OK | os.X_OK)
        refused = "Read-only file system" if os.statvfs(place).f_flag & os.ST_RDONLY else "Permission denied"
        reason = "" if is_folder and writable else refused if is_folder else "Not a directory"
        break
    if reason:
        raise RunError(f"cannot write {path}: {reason}; choose another --out")


def output_folder(path: Path) -> Door:
    """The door of a folder that the user asked for, made where it is not there yet."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise RunError(f"cannot write {path}: {fault.strerror or fault}; choose another --out") from fault
    return Door(path, "; choose another --out")

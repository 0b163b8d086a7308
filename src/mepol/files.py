"""Writing files so that a crash leaves the old one or the new one, never half of either; equal content, equal bytes.

Reading them as if a stranger had made them: no pipes, no devices, no more bytes than asked for, digests checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from torch import Tensor

DIGEST = "sha256"  # header entry that covers everything else in the file
MAX_HEADER = 1 << 20  # bytes; ours are a few kB


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` atomically: temporary file beside it, fsync, rename, fsync of the directory."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
        sync(path.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Replace `path` atomically with UTF-8 text."""
    write_bytes(path, text.encode())


def sync(path: Path) -> None:
    """Wait until what was written to the file or directory `path` would survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that a killed `write_bytes` left in `folder`."""
    for path in folder.glob(".*.tmp"):
        if path.is_file() or path.is_symlink():
            path.unlink(missing_ok=True)


def require_file(path: Path) -> None:
    """OSError unless `path` is an ordinary file: opening a named pipe would wait for ever, a device never ends."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is a directory, pipe or device" if path.exists() else f"{path} does not exist")


def read_text(path: Path, limit: int) -> str:
    """The UTF-8 text of an ordinary file of at most `limit` bytes; OSError or UnicodeDecodeError otherwise."""
    require_file(path)
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise OSError(f"{path} is larger than {limit} bytes")
        return file.read().decode()  # not read(limit), which would set aside that many bytes at once


def tensor_bytes(tensors: Mapping[str, Tensor], header: dict[str, str]) -> bytes:
    """Tensors and a header of texts as safetensors, sorted: the library's own order varies from call to call.

    The header gets a digest of everything else, since safetensors itself would not notice a flipped bit.
    """
    data = safetensors.torch.save({name: t.contiguous() for name, t in tensors.items()}, metadata=header)
    start = 8 + int.from_bytes(data[:8], "little")
    entries = json.loads(data[8:start])
    digest = hashlib.sha256(_canonical(entries) + data[start:]).hexdigest()
    entries["__metadata__"][DIGEST] = digest
    ordered = _canonical(entries)
    ordered += b" " * (-len(ordered) % 8)  # tensors stay aligned
    return len(ordered).to_bytes(8, "little") + ordered + data[start:]


def is_intact(path: Path) -> bool:
    """Whether the digest in a file that `tensor_bytes` made still fits; raises OSError only."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > MAX_HEADER:
            return False
        try:
            entries = json.loads(file.read(size))
            digest = entries["__metadata__"].pop(DIGEST)
            content = hashlib.sha256(_canonical(entries))
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            return False
        while block := file.read(1 << 20):
            content.update(block)
    return bool(digest == content.hexdigest())


def _canonical(entries: object) -> bytes:
    return json.dumps(entries, sort_keys=True, separators=(",", ":")).encode()

"""Writing files so that a crash leaves the old one or the new one, never half of either; equal content, equal bytes.

Reading them as if a stranger had made them: no pipes, no devices, no more bytes than asked for, digests checked, and
no tensor read before its name, shape and type are known to be wanted.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import safetensors.torch
import torch
from torch import Tensor

from mepol.errors import MepolError

T = TypeVar("T")
Layout = dict[str, tuple[list[int], str]]
"""Shape and type (`F32`, `F64`, `I64`) of each tensor in a file, by name."""

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


@dataclass(frozen=True)
class TensorFormat:
    """One kind of safetensors file: what its header says, and what its errors say."""

    name: str
    """The `format` of its header."""
    error: type[MepolError]
    """What a file that is missing, damaged, foreign or inconsistent raises."""
    source: str
    """After "cannot read" and before the path: `a policy from`."""
    foreign: str
    """Said after the path when the format is another."""
    not_finite: str
    """Said after the path when a value is NaN or infinite."""
    needs_digest: bool = True
    """Whether a file without a digest (made by another program) is damaged, or taken as it is."""

    def read(self, path: Path, check: Callable[[dict[str, str], Layout], T]) -> tuple[T, dict[str, Tensor]]:
        """All tensors of `path`, and what `check` made of its header. Nothing in the file is executed.

        check: sees header and layout before any tensor is allocated, and raises where they do not fit.
        """
        try:
            require_file(path)
            with safetensors.safe_open(path, framework="pt") as file:
                header = file.metadata() or {}
                if header.get("format") != self.name:
                    raise self.error(f"{path} {self.foreign}")
                slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
                checked = check(header, {name: (s.get_shape(), s.get_dtype()) for name, s in slices.items()})
                if (self.needs_digest or DIGEST in header) and not is_intact(path):
                    raise self.error(f"{path} is damaged: its content does not fit its digest")
                tensors = {name: file.get_tensor(name) for name in slices}
        except (OSError, safetensors.SafetensorError) as fault:
            raise self.error(f"cannot read {self.source} {path}: {fault}") from fault
        if not all(bool(torch.isfinite(t).all()) for t in tensors.values()):
            raise self.error(f"{path} {self.not_finite}")
        return checked, tensors


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

"""Writing files so that a crash leaves the old one or the new one, never half of either; equal content, equal bytes."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from torch import Tensor


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` atomically: temporary file beside it, fsync, rename."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Replace `path` atomically with UTF-8 text."""
    write_bytes(path, text.encode())


def tensor_bytes(tensors: Mapping[str, Tensor], header: dict[str, str]) -> bytes:
    """Tensors and a header of texts as safetensors, sorted: the library's own order varies from call to call."""
    data = safetensors.torch.save({name: t.contiguous() for name, t in tensors.items()}, metadata=header)
    start = 8 + int.from_bytes(data[:8], "little")
    ordered = json.dumps(json.loads(data[8:start]), sort_keys=True, separators=(",", ":")).encode()
    ordered += b" " * (-len(ordered) % 8)  # tensors stay aligned
    return len(ordered).to_bytes(8, "little") + ordered + data[start:]

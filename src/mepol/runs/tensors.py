"""Tensors as safetensors files: sorted, with a digest; read as if a stranger had made them.

Nothing is allocated before name, shape, type and total size are known to be wanted, and nothing is ever executed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import safetensors.torch
import torch
from torch import Tensor

from mepol.algorithm.pictures import Eye, Picture
from mepol.errors import MepolError
from mepol.runs.files import require_file

T = TypeVar("T")
Layout = dict[str, tuple[list[int], str]]
"""Shape and type (`F32`, `F64`, `I64`) of each tensor in a file, by name."""

DIGEST = "sha256"  # header entry that covers everything else in the file
MAX_HEADER = 1 << 20  # bytes; ours are a few kB
MAX_FILE = 1 << 31  # bytes; the largest that a setting allows stays below


def tensor_bytes(tensors: Mapping[str, Tensor], header: dict[str, str]) -> bytes:
    """Tensors and a header of texts as safetensors, sorted: the library's own order varies from call to call.

    The header gets a digest of everything else, since safetensors itself would not notice a flipped bit.
    """
    own = {name: t.contiguous().clone() for name, t in tensors.items()}  # tied weights are stored once for each name
    data = safetensors.torch.save(own, metadata=header)
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
    older: tuple[str, ...] = ()
    """Formats of earlier versions that are still read; `check` sees which in the header."""
    most: int = MAX_FILE
    """Bytes that such a file may have."""

    def read(self, path: Path, check: Callable[[dict[str, str], Layout], T]) -> tuple[T, dict[str, Tensor]]:
        """All tensors of `path`, and what `check` made of its header. Nothing in the file is executed.

        check: sees header and layout before any tensor is allocated, and raises where they do not fit.
        """
        read_header(path, self.error, self.source, self.most)
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                header = file.metadata() or {}
                if header.get("format") not in (self.name, *self.older):
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


def read_header(path: Path, error: type[MepolError], source: str, most: int = MAX_FILE) -> dict[str, str]:
    """The texts in a file's header, read before anything else of it: `error` unless its sizes are such as we write."""
    try:
        require_file(path)
        with path.open("rb") as file:
            size, length = os.fstat(file.fileno()).st_size, int.from_bytes(file.read(8), "little")
            if size > most or length > min(size, MAX_HEADER):
                raise error(f"{path} is damaged or forged: {size} bytes with a header of {length}")
            entries = json.loads(file.read(length))
    except OSError as fault:
        raise error(f"cannot read {source} {path}: {fault}") from fault
    except (ValueError, RecursionError) as fault:
        raise error(f"cannot read {source} {path}: its header is unreadable ({fault})") from fault
    texts = entries.get("__metadata__", {}) if isinstance(entries, dict) else {}
    return {str(k): str(v) for k, v in texts.items()} if isinstance(texts, dict) else {}


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


def digest_in(data: bytes) -> str:
    """The digest in the header of what `tensor_bytes` made."""
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return str(header["__metadata__"][DIGEST])


def tensor_shapes(widths: tuple[int, ...], picture: Picture | None = None) -> dict[str, list[int]]:
    """Names and shapes of the tensors of a Gaussian policy with these widths, of pictures where it reads these."""
    shapes: dict[str, list[int]] = {"log_std": [widths[-1]], "shift": [widths[0]], "scale": [widths[0]]}
    if picture is not None:
        with torch.device("meta"):  # shapes alone
            eye = Eye(picture)
        shapes |= {f"eye.{name}": list(tensor.shape) for name, tensor in eye.state_dict().items()}
        widths = (eye.features, *widths[1:])
    for i, (fan_in, fan_out) in enumerate(itertools.pairwise(widths)):
        shapes[f"layers.{i}.weight"] = [fan_out, fan_in]
        shapes[f"layers.{i}.bias"] = [fan_out]
    return shapes

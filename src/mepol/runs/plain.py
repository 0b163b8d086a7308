"""Weights of another program: a plain state dict with the layers `net.*`, `mean.*` and `log_std`, nothing executed.

    net.0.weight, net.0.bias, net.2.weight, ...   the hidden layers, a ReLU behind each (weights cannot say which)
    mean.weight, mean.bias                        the mean of the actions
    log_std                                       (A,) or (1, A), ln of their deviation
    shift, scale                                  (S,), where the network sees (s - shift) / scale; may be left out

A file of `torch.save` is an archive with a pickle in it. Before torch's own weights-only reader sees that, the archive
must be small and uncompressed, and the pickle may name tensors, their storages and dictionaries alone. A safetensors
file needs none of this: its header says all.
"""

from __future__ import annotations

import itertools
import json
import pickletools
import re
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import safetensors
import torch
from torch import Tensor

from mepol.errors import PolicyFileError
from mepol.runs.files import require_file
from mepol.runs.tensors import read_header

MAX_INDEX = 1 << 16  # bytes of the pickle: names and shapes of some hundred tensors
MAX_TENSORS = 100
NEEDED = {"mean.weight", "mean.bias", "log_std"}
_PERMITTED = re.compile(
    r"collections OrderedDict|torch\._utils _rebuild_(tensor_v2|parameter)|torch (Float|Double|Half|BFloat16)Storage"
)
_LAYER = re.compile(r"net\.([0-9]{1,4})\.weight")


def read_plain(
    path: Path, most: int, check_widths: Callable[[str, Path], tuple[int, ...]]
) -> tuple[tuple[int, ...], dict[str, Tensor]] | None:
    """Widths and tensors of the GaussianPolicy that a plain file describes; None where it is a file of ours, or none.

    most: bytes that it may have. check_widths: JSON of the widths -> the widths, or PolicyFileError.
    """
    if _is_archive(path):
        return _as_gaussian(_read_archive(path, most), path, check_widths)
    if read_header(path, PolicyFileError, "a policy from", most).get("format", "").startswith("mepol-"):
        return None
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            names = set(file.keys())
            if not names >= NEEDED or len(names) > MAX_TENSORS:
                return None
            return _as_gaussian({name: file.get_tensor(name) for name in names}, path, check_widths)
    except (OSError, safetensors.SafetensorError) as fault:
        raise PolicyFileError(f"cannot read a policy from {path}: {fault}") from fault


def _is_archive(path: Path) -> bool:
    """Whether `path` is an ordinary file that begins as those of `torch.save` do."""
    try:
        require_file(path)
        with path.open("rb") as file:
            return file.read(4) == b"PK\x03\x04"
    except OSError:
        return False  # told by who reads it next


def _read_archive(path: Path, most: int) -> dict[str, Tensor]:
    """The tensors of a state dict that `torch.save` wrote, of at most `most` bytes in all."""
    _check_archive(path, most)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as fault:  # whatever a damaged archive makes torch's reader raise
        raise PolicyFileError(f"cannot read a policy from {path}: {str(fault)[:200]}") from fault
    if not isinstance(found, Mapping) or not all(isinstance(t, Tensor) for t in found.values()):
        raise PolicyFileError(f"{path} is not a state dict: save policy.state_dict() alone, not the whole module")
    return {str(name): tensor for name, tensor in found.items()}


def _as_gaussian(
    tensors: Mapping[str, Tensor], path: Path, check_widths: Callable[[str, Path], tuple[int, ...]]
) -> tuple[tuple[int, ...], dict[str, Tensor]]:
    """Layer widths (S, hidden, A), and the tensors under the names of a GaussianPolicy, float32.

    Nothing is copied before all shapes are known to fit each other: a forged view of one number may claim millions.
    """
    if not set(tensors) >= NEEDED:
        raise PolicyFileError(
            f"{path} is no policy: a state dict needs net.0.weight, net.0.bias, ..., mean.weight, mean.bias and log_std"
        )
    numbers = sorted(int(found[1]) for name in tensors if (found := _LAYER.fullmatch(name)))
    layers = [*(f"net.{n}" for n in numbers), "mean"]
    shapes = [tuple(tensors[f"{layer}.weight"].shape) for layer in layers]
    if any(len(shape) != 2 for shape in shapes):
        raise PolicyFileError(f"{path} has weights {shapes}, and those of a layer are (outputs, inputs)")
    widths = check_widths(json.dumps([shapes[0][1], *(shape[0] for shape in shapes)]), path)
    wanted: dict[str, tuple[int, ...]]
    wanted = {f"layers.{i}.weight": (o, n) for i, (n, o) in enumerate(itertools.pairwise(widths))}
    wanted |= {f"layers.{i}.bias": (o,) for i, o in enumerate(widths[1:])}
    names = {f"layers.{i}.{part}": f"{layer}.{part}" for i, layer in enumerate(layers) for part in ("weight", "bias")}
    wanted |= {"log_std": (widths[-1],), "shift": (widths[0],), "scale": (widths[0],)}
    names |= {name: name for name in ("log_std", "shift", "scale")}
    unknown = set(tensors) - set(names.values())
    if unknown:
        raise PolicyFileError(f"{path} has {sorted(unknown)[0][:80]!r}, which is no part of net.*, mean.* and log_std")
    missing = [name for name in names.values() if name not in tensors and name not in ("shift", "scale")]
    if missing:
        raise PolicyFileError(f"{path} has no {missing[0]!r}")
    for ours, theirs in names.items():
        if theirs not in tensors:
            continue
        shape, needed = tuple(tensors[theirs].shape), wanted[ours]
        fits = shape == needed or (ours == "log_std" and shape == (1, *needed))
        if not fits or not tensors[theirs].is_floating_point():
            raise PolicyFileError(
                f"{path}: {theirs!r} is {shape} {tensors[theirs].dtype}, and real numbers {needed} are needed"
            )
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
        raise PolicyFileError(f"{path} holds NaN or infinite weights")
    plain = {"shift": torch.zeros(widths[0]), "scale": torch.ones(widths[0])}
    own = {ours: tensors[theirs] for ours, theirs in names.items() if theirs in tensors}
    return widths, plain | {n: t.detach().to(torch.float32).reshape(wanted[n]).contiguous() for n, t in own.items()}


def _check_archive(path: Path, most: int) -> None:
    """PolicyFileError unless the archive is such as `torch.save` writes of tensors alone."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > most or path.stat().st_size > most:
                raise PolicyFileError(f"{path} holds more than {most} bytes, which no policy of ours needs")
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries) or len(entries) > MAX_TENSORS + 20:
                raise PolicyFileError(f"{path} is not as torch.save writes a policy: compressed, or too many parts")
            index = [entry for entry in entries if entry.filename.lower().endswith("data.pkl")]
            if len(index) != 1 or index[0].file_size > MAX_INDEX:
                raise PolicyFileError(f"{path} is not as torch.save writes a policy: its index is missing or too large")
            _check_index(archive.read(index[0]), path)
    except (OSError, zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError) as fault:
        if isinstance(fault, PolicyFileError):
            raise
        raise PolicyFileError(f"cannot read a policy from {path}: {str(fault)[:200]}") from fault


def _check_index(data: bytes, path: Path) -> None:
    """The pickle is read as a list of instructions, none of which is followed."""
    for instruction, argument, _ in pickletools.genops(data):
        named = instruction.name in ("GLOBAL", "INST")
        if instruction.name in ("STACK_GLOBAL", "EXT1", "EXT2", "EXT4") or (
            named and not _PERMITTED.fullmatch(str(argument))
        ):
            what = str(argument)[:80] if named else instruction.name
            raise PolicyFileError(
                f"{path} asks for {what!r}, and only tensors are read: save policy.state_dict() alone"
            )

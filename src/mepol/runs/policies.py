"""Policies as files: safetensors, with the widths that a policy is rebuilt from in the header. No code, no pickle."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from mepol.algorithm.policy import GaussianPolicy
from mepol.errors import PolicyFileError
from mepol.runs.files import Layout, TensorFormat, tensor_bytes, write_bytes

FORMAT = "mepol-policy-1"
FILE = TensorFormat(
    FORMAT,
    PolicyFileError,
    source="a policy from",
    foreign=f"is not a mepol policy: its header has no format {FORMAT!r}",
    not_finite="holds NaN or infinite weights",
    needs_digest=False,
)
MAX_WIDTH = 1 << 16  # a header that asks for more than this is forged


def save_policy(policy: GaussianPolicy, path: str | Path) -> None:
    """Write `policy` as safetensors, with the widths it is rebuilt from in the header. No code, no pickle.

    Raises PolicyFileError when the file cannot be written.
    """
    try:
        write_bytes(Path(path), policy_bytes(policy))
    except OSError as fault:
        raise PolicyFileError(f"cannot write a policy to {path}: {fault}") from fault


def policy_bytes(policy: GaussianPolicy) -> bytes:
    """What `save_policy` writes; equal policies give equal bytes."""
    header = {"format": FORMAT, "widths": json.dumps(list(policy.widths))}
    return tensor_bytes(policy.state_dict(), header)


def load_policy(path: str | Path) -> GaussianPolicy:
    """Read a policy that `save_policy` wrote. Nothing in the file is executed.

    Raises PolicyFileError when the file is missing, truncated, damaged, foreign or inconsistent. A file without a
    digest (made by another program) is taken as it is.
    """

    def check(header: dict[str, str], layout: Layout) -> tuple[int, ...]:
        widths = checked_widths(header.get("widths", ""), path)
        if layout != {name: (shape, "F32") for name, shape in tensor_shapes(widths).items()}:
            raise PolicyFileError(f"{path} does not hold the tensors of a policy with widths {widths}")
        return widths

    widths, tensors = FILE.read(Path(path), check)
    policy = GaussianPolicy(widths[0], widths[-1], widths[1:-1])
    policy.load_state_dict(tensors)
    return policy


def tensor_shapes(widths: tuple[int, ...]) -> dict[str, list[int]]:
    """Names and shapes of the tensors of a policy with these widths."""
    shapes: dict[str, list[int]] = {"log_std": [widths[-1]], "shift": [widths[0]], "scale": [widths[0]]}
    for i, (fan_in, fan_out) in enumerate(itertools.pairwise(widths)):
        shapes[f"layers.{i}.weight"] = [fan_out, fan_in]
        shapes[f"layers.{i}.bias"] = [fan_out]
    return shapes


def checked_widths(text: str, path: str | Path) -> tuple[int, ...]:
    """Layer widths from a header's text; PolicyFileError when they are impossible."""
    try:
        widths = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise PolicyFileError(f"{path} has an unreadable header") from fault
    good = isinstance(widths, list) and 2 <= len(widths) <= 32
    if not good or not all(type(w) is int and 1 <= w <= MAX_WIDTH for w in widths):
        raise PolicyFileError(f"{path} asks for impossible layer widths")
    return tuple(widths)

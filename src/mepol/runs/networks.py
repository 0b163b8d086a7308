"""What a policy file says of a network: its widths, believed where they are possible; and the categorical policy."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from mepol.algorithm.categorical import CategoricalPolicy
from mepol.errors import PolicyFileError
from mepol.runs.tensors import Layout, tensor_shapes

MAX_WIDTH = 1 << 16  # a header that asks for more than this is forged
MAX_PARAMETERS = 50_000_000  # of one network: 200 MB


def checked_widths(text: str, path: str | Path) -> tuple[int, ...]:
    """Layer widths from a header's text; PolicyFileError when they are impossible."""
    widths = _read(text, path)
    good = isinstance(widths, list) and 2 <= len(widths) <= 32
    if not good or not all(type(w) is int and 1 <= w <= MAX_WIDTH for w in widths):
        raise PolicyFileError(f"{path} asks for impossible layer widths")
    if sum(a * b for a, b in itertools.pairwise(widths)) > MAX_PARAMETERS:
        raise PolicyFileError(f"{path} asks for impossible layer widths: more than {MAX_PARAMETERS} weights")
    return tuple(widths)


def require_scale(tensors: Mapping[str, Tensor], path: Path) -> None:
    """PolicyFileError unless a network divides its input by what is above 0."""
    if bool((tensors["scale"] <= 0).any()):
        raise PolicyFileError(f"{path} has an input scale that is not above 0")


def _read(text: str, path: str | Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise PolicyFileError(f"{path} has an unreadable header") from fault


# --- A categorical policy ---------------------------------------------------------------------------------------------

Plan = tuple[tuple[int, ...], tuple[int, ...]]
"""Widths and choices."""


def pack_categorical(policy: CategoricalPolicy) -> tuple[Mapping[str, Tensor], dict[str, str]]:
    """Tensors and header of the policy."""
    sizes = {"widths": policy.widths, "choices": policy.choices}
    return policy.state_dict(), {name: json.dumps(list(values)) for name, values in sizes.items()}


def plan_categorical(header: dict[str, str], layout: Layout, path: Path) -> Plan:
    """What header and layout say; PolicyFileError where they do not fit."""
    widths, choices = checked_widths(header.get("widths", ""), path), _read(header.get("choices", ""), path)
    good = isinstance(choices, list) and all(type(n) is int and 1 <= n <= MAX_WIDTH for n in choices)
    if not good or sum(choices) != widths[-1]:
        raise PolicyFileError(f"{path} asks for impossible choices: they must add up to its last width, {widths[-1]}")
    wanted = {name: (shape, "F32") for name, shape in tensor_shapes(widths).items() if name != "log_std"}
    if layout != wanted:
        raise PolicyFileError(f"{path} does not hold the tensors of a categorical policy with widths {widths}")
    return widths, tuple(choices)


def build_categorical(plan: Plan, tensors: Mapping[str, Tensor], path: Path) -> CategoricalPolicy:
    """The policy, from the plan and the tensors."""
    widths, choices = plan
    require_scale(tensors, path)
    policy = CategoricalPolicy(widths[0], choices, widths[1:-1])
    policy.load_state_dict(tensors)
    return policy

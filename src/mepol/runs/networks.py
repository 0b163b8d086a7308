"""What a policy file says of a network: its widths, believed where they are possible; and the policies that are one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from mepol.algorithm.categorical import CategoricalPolicy
from mepol.algorithm.pictures import Picture
from mepol.algorithm.policy import GaussianPolicy
from mepol.algorithm.population import PopulationPolicy
from mepol.errors import EnvironmentFault, PolicyFileError
from mepol.runs.tensors import Layout, tensor_shapes

MAX_WIDTH = 1 << 16  # a header that asks for more than this is forged
MAX_PARAMETERS = 50_000_000  # of one network: 200 MB
LOG_STD = (-30.0, 20.0)  # beyond, actions are all noise or none, and exp overflows


def checked_widths(text: str, path: str | Path) -> tuple[int, ...]:
    """Layer widths from a header's text; PolicyFileError when they are impossible."""
    widths = _read(text, path)
    good = isinstance(widths, list) and 2 <= len(widths) <= 32
    if not good or not all(type(w) is int and 1 <= w <= MAX_WIDTH for w in widths):
        raise PolicyFileError(f"{path} asks for impossible layer widths")
    if sum(a * b for a, b in itertools.pairwise(widths)) > MAX_PARAMETERS:
        raise PolicyFileError(f"{path} asks for impossible layer widths: more than {MAX_PARAMETERS} weights")
    return tuple(widths)


def checked_correlation(header: Mapping[str, str], path: Path) -> float:
    """Correlation of a policy's noise, 0 where the header has none; PolicyFileError when it is impossible."""
    try:
        correlation = float(header.get("correlation", "0"))
    except ValueError as fault:
        raise PolicyFileError(f"{path} has an unreadable header") from fault
    if not 0 <= correlation < 1:
        raise PolicyFileError(f"{path} has a correlation of noise outside [0, 1)")
    return correlation


def picture_header(picture: Picture | None) -> dict[str, str]:
    """What a header says of the pictures that a policy reads: nothing where it reads none."""
    return {} if picture is None else {"picture": json.dumps(list(picture.source))}


def checked_picture(header: Mapping[str, str], widths: tuple[int, ...], path: Path) -> Picture | None:
    """The pictures that a policy with these widths reads; PolicyFileError when they are impossible."""
    if "picture" not in header:
        return None
    sides = _read(header["picture"], path)
    if not isinstance(sides, list) or len(sides) != 3 or not all(type(n) is int and 1 <= n <= MAX_WIDTH for n in sides):
        raise PolicyFileError(f"{path} has a picture that is not [height, width, channels]")
    try:
        picture = Picture(*sides)
    except EnvironmentFault as fault:
        raise PolicyFileError(f"{path} reads impossible pictures: {fault}") from fault
    if picture.size != widths[0]:
        raise PolicyFileError(f"{path} reads pictures {tuple(sides)} as rows of {picture.size}, not of {widths[0]}")
    return picture


def require_spread(tensors: Mapping[str, Tensor], path: Path) -> None:
    """PolicyFileError unless a Gaussian's deviations are numbers that actions can be drawn with."""
    low, high = LOG_STD
    if bool(((tensors["log_std"] < low) | (tensors["log_std"] > high)).any()):
        raise PolicyFileError(f"{path} has a log_std outside [{low:g}, {high:g}]: its actions would be no numbers")


def require_scale(tensors: Mapping[str, Tensor], path: Path) -> None:
    """PolicyFileError unless a network divides its input by what is above 0."""
    if bool((tensors["scale"] <= 0).any()):
        raise PolicyFileError(f"{path} has an input scale that is not above 0")


def _read(text: str, path: str | Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise PolicyFileError(f"{path} has an unreadable header") from fault


# --- A Gaussian -----------------------------------------------------------------------------------------------------

GaussianPlan = tuple[tuple[int, ...], float, Picture | None]
"""Widths, correlation of the noise, and what is read."""


def pack_gaussian(policy: GaussianPolicy) -> tuple[Mapping[str, Tensor], dict[str, str]]:
    """Tensors and header of the policy."""
    noise = {"correlation": repr(policy.correlation)} if policy.correlation else {}
    return policy.state_dict(), {"widths": json.dumps(list(policy.widths)), **noise, **picture_header(policy.picture)}


def plan_gaussian(header: dict[str, str], layout: Layout, path: Path) -> GaussianPlan:
    """What header and layout say; PolicyFileError where they do not fit."""
    widths = checked_widths(header.get("widths", ""), path)
    correlation, picture = checked_correlation(header, path), checked_picture(header, widths, path)
    if layout != {name: (shape, "F32") for name, shape in tensor_shapes(widths, picture).items()}:
        raise PolicyFileError(f"{path} does not hold the tensors of a policy with widths {widths}")
    return widths, correlation, picture


def build_gaussian(plan: GaussianPlan, tensors: Mapping[str, Tensor], path: Path) -> GaussianPolicy:
    """The policy, from the plan and the tensors."""
    widths, correlation, picture = plan
    require_spread(tensors, path)
    require_scale(tensors, path)
    policy = GaussianPolicy(widths[0], widths[-1], widths[1:-1], correlation, picture)
    policy.load_state_dict(tensors)
    return policy


# --- A population -----------------------------------------------------------------------------------------------------


def pack_population(policy: PopulationPolicy) -> tuple[Mapping[str, Tensor], dict[str, str]]:
    """Tensors and header of the policies."""
    header = {"widths": json.dumps(list(policy.widths)), "size": str(policy.size)}
    return policy.state_dict(), {**header, "correlation": repr(policy.correlation)}


def plan_population(header: dict[str, str], layout: Layout, path: Path) -> tuple[tuple[int, ...], int, float]:
    """Widths, size and correlation as header and layout say; PolicyFileError where they do not fit."""
    widths, correlation = checked_widths(header.get("widths", ""), path), checked_correlation(header, path)
    text = header.get("size", "")
    size = int(text) if text.isdecimal() and text.isascii() and len(text) < 6 else 0
    if size < 1 or widths[-1] % size:
        raise PolicyFileError(
            f"{path} asks for an impossible number of policies: {widths[-1]} outputs, size {text[:9]!r}"
        )
    wanted = {name: (shape, "F32") for name, shape in tensor_shapes(widths).items()}
    wanted["log_std"] = ([size, widths[-1] // size], "F32")
    if layout != wanted:
        raise PolicyFileError(f"{path} does not hold the tensors of {size} policies with widths {widths}")
    return widths, size, correlation


def build_population(
    plan: tuple[tuple[int, ...], int, float], tensors: Mapping[str, Tensor], path: Path
) -> PopulationPolicy:
    """The policies, from the plan and the tensors."""
    widths, size, correlation = plan
    require_spread(tensors, path)
    require_scale(tensors, path)
    policy = PopulationPolicy(widths[0], widths[-1] // size, size, widths[1:-1], correlation)
    policy.load_state_dict(tensors)
    return policy


# --- A categorical policy ---------------------------------------------------------------------------------------------

Plan = tuple[tuple[int, ...], tuple[int, ...], Picture | None]
"""Widths, choices, and what is read."""


def pack_categorical(policy: CategoricalPolicy) -> tuple[Mapping[str, Tensor], dict[str, str]]:
    """Tensors and header of the policy."""
    sizes = {"widths": policy.widths, "choices": policy.choices}
    own = {name: json.dumps(list(values)) for name, values in sizes.items()}
    return policy.state_dict(), {**own, **picture_header(policy.picture)}


def plan_categorical(header: dict[str, str], layout: Layout, path: Path) -> Plan:
    """What header and layout say; PolicyFileError where they do not fit."""
    widths, choices = checked_widths(header.get("widths", ""), path), _read(header.get("choices", ""), path)
    good = isinstance(choices, list) and all(type(n) is int and 1 <= n <= MAX_WIDTH for n in choices)
    if not good or sum(choices) != widths[-1]:
        raise PolicyFileError(f"{path} asks for impossible choices: they must add up to its last width, {widths[-1]}")
    picture = checked_picture(header, widths, path)
    wanted = {name: (shape, "F32") for name, shape in tensor_shapes(widths, picture).items() if name != "log_std"}
    if layout != wanted:
        raise PolicyFileError(f"{path} does not hold the tensors of a categorical policy with widths {widths}")
    return widths, tuple(choices), picture


def build_categorical(plan: Plan, tensors: Mapping[str, Tensor], path: Path) -> CategoricalPolicy:
    """The policy, from the plan and the tensors."""
    widths, choices, picture = plan
    require_scale(tensors, path)
    policy = CategoricalPolicy(widths[0], choices, widths[1:-1], picture)
    policy.load_state_dict(tensors)
    return policy

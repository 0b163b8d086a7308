"""Whatever acts as a file: safetensors, with what it is rebuilt from in the header. No code, no pickle.

format             what acts                                              written by
mepol-policy-1     a diagonal Gaussian                                    MEPOL, random, TRPO, PPO
mepol-choices-1    a categorical policy                                   MEPOL, random, uniform, TRPO, PPO
mepol-population-1 several Gaussians on one network                       MEPOL with --policies
mepol-mixture-1    uniform actions and any number of Gaussians            MaxEnt, uniform
mepol-squashed-1   SAC's Gaussian behind a tanh, with skills or without   SAC, SMM, ICM, Pseudocount, --learner sac
mepol-given-1      a policy class of the user's own                       whoever hands one in, and again to load it
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from mepol.algorithm.categorical import CategoricalPolicy
from mepol.algorithm.policy import GaussianPolicy
from mepol.algorithm.population import PopulationPolicy
from mepol.errors import PolicyFileError
from mepol.runs import networks
from mepol.runs.files import Door
from mepol.runs.networks import build_gaussian, checked_widths
from mepol.runs.plain import read_plain
from mepol.runs.tensors import Layout, TensorFormat, read_header, tensor_bytes, tensor_shapes
from mepol.runs.zoo import policy_place
from mepol.sampling.actors import Mixture, SquashedPolicy, UniformActor
from mepol.sampling.collect import Actor

MAX_POLICY = 1 << 28  # bytes of a policy file, however many networks are in it


@dataclass(frozen=True)
class Format:
    """One kind of file."""

    file: TensorFormat
    owns: Callable[[Any], bool]
    """Whether it is for this actor."""
    pack: Callable[[Any], tuple[Mapping[str, Tensor], dict[str, str]]]
    """Tensors and header of an actor."""
    plan: Callable[..., Any]
    """(header, layout, path) -> what they say, before anything is allocated; PolicyFileError where they do not fit."""
    build: Callable[[Any, dict[str, Tensor], Path], Any]
    """The actor, from the plan and the tensors."""


def save_policy(policy: Any, path: str | Path) -> None:
    """Write what acts as safetensors. Raises PolicyFileError when the file cannot be written.

    >>> import mepol
    >>> mepol.save_policy(mepol.GaussianPolicy(2, 2), "policy.safetensors")
    """
    data, path = policy_bytes(policy), Path(path)
    try:
        Door(path.parent, "").write(path.name, data)
    except Exception as fault:
        raise PolicyFileError(f"cannot write a policy to {path}: {fault}") from fault


def policy_bytes(policy: Any, header: Mapping[str, str] | None = None) -> bytes:
    """What `save_policy` writes; equal policies give equal bytes. header: further entries, texts."""
    for kind in FORMATS.values():
        if kind.owns(policy):
            tensors, own = kind.pack(policy)
            return tensor_bytes(tensors, {"format": kind.file.name, **own, **(header or {})})
    raise PolicyFileError(f"a {type(policy).__name__} cannot be written: it has no state_dict()")


def with_header(data: bytes, header: Mapping[str, str]) -> bytes:
    """The same file with further entries in its header."""
    start = 8 + int.from_bytes(data[:8], "little")
    known = json.loads(data[8:start])["__metadata__"]
    known.pop("sha256", None)
    return tensor_bytes(safetensors.torch.load(data), {**known, **header})


def load_policy(path: str | Path, into: nn.Module | None = None) -> Any:
    """Read what `save_policy` wrote, or a plain state dict (plain.py).

    Nothing in the file is executed.
    into: a policy of the user's own class, which takes over the weights; such a file cannot be opened without it.
    Raises PolicyFileError when the file is missing, truncated, damaged, foreign or inconsistent.

    >>> import mepol
    >>> mepol.save_policy(mepol.GaussianPolicy(2, 3), "policy.safetensors")
    >>> mepol.load_policy("policy.safetensors").widths
    (2, 300, 300, 3)
    """
    path = policy_place(path)
    if (plain := read_plain(path, MAX_POLICY, checked_widths)) is not None:
        return build_gaussian((plain[0], 0.0, None), plain[1], path)
    name = policy_header(path).get("format", "")
    if name not in FORMATS:
        raise PolicyFileError(f"{path} is not a mepol policy: its header has none of the formats {', '.join(FORMATS)}")
    kind = FORMATS[name]
    plan_of = partial(kind.plan, into=into) if name == GIVEN else kind.plan
    plan, tensors = kind.file.read(path, lambda header, layout: plan_of(header, layout, path))
    return kind.build(plan, tensors, path)


def policy_header(path: Path) -> dict[str, str]:
    """The header of a policy file; its weights are not read."""
    return read_header(path, PolicyFileError, "a policy from", MAX_POLICY)


# --- A mixture --------------------------------------------------------------------------------------------------------


def _pack_mixture(mixture: Mixture) -> tuple[Mapping[str, Tensor], dict[str, str]]:
    """All policies of a mixture have the same widths."""
    tensors = {
        "weights": torch.from_numpy(mixture.weights),
        "low": torch.from_numpy(mixture.uniform.low),
        "high": torch.from_numpy(mixture.uniform.high),
    }
    for i, policy in enumerate(mixture.policies):
        tensors |= {f"{i}.{name}": tensor for name, tensor in policy.state_dict().items()}
    widths = list(mixture.policies[0].widths) if mixture.policies else []
    return tensors, {"size": str(len(mixture.policies)), "draw": mixture.draw, "widths": json.dumps(widths)}


def _plan_mixture(header: dict[str, str], layout: Layout, path: Path) -> tuple[tuple[int, ...], str]:
    text = header.get("size", "")
    if not (text.isdecimal() and text.isascii() and len(text) < 10):
        raise PolicyFileError(f"{path} has an unreadable header")
    size = int(text)
    widths = checked_widths(header.get("widths", ""), path) if size else ()
    actions = [widths[-1]] if widths else layout["low"][0] if "low" in layout else []
    wanted: Layout = {"weights": ([size + 1], "F64"), "low": (actions, "F32"), "high": (actions, "F32")}
    if len(layout) == len(wanted) + size * (len(tensor_shapes(widths)) if size else 0):  # before `size` is believed
        for i in range(size):
            wanted |= {f"{i}.{name}": (shape, "F32") for name, shape in tensor_shapes(widths).items()}
    if layout != wanted or len(actions) != 1:
        raise PolicyFileError(f"{path} does not hold the tensors of a mixture of {size} policies with widths {widths}")
    return widths, "episode" if header.get("draw") == "episode" else "step"


def _build_mixture(plan: tuple[tuple[int, ...], str], tensors: Mapping[str, Tensor], path: Path) -> Mixture:
    widths, draw = plan
    low, high, weights = (tensors[name].numpy() for name in ("low", "high", "weights"))
    if weights.min() < 0 or abs(weights.sum() - 1) > 1e-9 or not np.all(low <= high):
        raise PolicyFileError(f"{path} holds impossible weights")
    policies = []
    for i in range(len(weights) - 1):
        own = {name: tensors[f"{i}.{name}"] for name in tensor_shapes(widths)}
        policies.append(build_gaussian((widths, 0.0, None), own, path))
    return Mixture(UniformActor(low, high), tuple(policies), weights, cast(Any, draw))


# --- SAC's ------------------------------------------------------------------------------------------------------------


def _pack_squashed(policy: SquashedPolicy) -> tuple[Mapping[str, Tensor], dict[str, str]]:
    return policy.state_dict(), {"widths": json.dumps(list(policy.widths)), "skills": str(policy.skills)}


def _plan_squashed(header: dict[str, str], layout: Layout, path: Path) -> tuple[tuple[int, ...], int]:
    widths, text = checked_widths(header.get("widths", ""), path), header.get("skills", "")
    if not (text.isdecimal() and text.isascii() and len(text) < 5):
        raise PolicyFileError(f"{path} has an unreadable header")
    with torch.device("meta"):  # shapes alone
        blank = SquashedPolicy(widths[0], widths[-1], widths[1:-1], int(text))
    wanted = {name: (list(t.shape), "F32") for name, t in blank.state_dict().items()}
    if layout != wanted:
        raise PolicyFileError(f"{path} does not hold the tensors of a squashed policy with widths {widths}")
    return widths, int(text)


def _build_squashed(plan: tuple[tuple[int, ...], int], tensors: Mapping[str, Tensor], path: Path) -> SquashedPolicy:
    if not bool((tensors["low"] <= tensors["high"]).all()):
        raise PolicyFileError(f"{path} holds impossible bounds of actions")
    widths, skills = plan
    policy = SquashedPolicy(widths[0], widths[-1], widths[1:-1], skills)
    policy.load_state_dict(tensors)
    return policy


# --- A class of the user's own ----------------------------------------------------------------------------------------


def _pack_given(policy: nn.Module) -> tuple[Mapping[str, Tensor], dict[str, str]]:
    return policy.state_dict(), {"class": type(policy).__qualname__}


def _plan_given(header: dict[str, str], layout: Layout, path: Path, into: nn.Module | None = None) -> nn.Module:
    if into is None:
        name = header.get("class", "?")[:80]
        raise PolicyFileError(f"{path} holds a policy of the class {name!r}, which is not ours: hand one in to load it")
    if layout != {name: (list(t.shape), _CODES.get(t.dtype, "?")) for name, t in into.state_dict().items()}:
        raise PolicyFileError(f"{path} does not fit the {type(into).__name__} that was handed in")
    return into


def _build_given(into: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> Actor:
    into.load_state_dict(tensors)
    return cast(Actor, into)


_CODES = {
    **{torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64"},
    **{torch.uint8: "U8", torch.int32: "I32", torch.int64: "I64", torch.bool: "BOOL"},
}
"""How safetensors calls the types that a policy of the user's own may have."""
GIVEN = "mepol-given-1"


def _file(name: str, *, needs_digest: bool = True) -> TensorFormat:
    return TensorFormat(
        name,
        PolicyFileError,
        source="a policy from",
        foreign=f"is not a mepol policy of format {name!r}",
        not_finite="holds NaN or infinite weights",
        needs_digest=needs_digest,
        most=MAX_POLICY,
    )


FORMATS: dict[str, Format] = {
    kind.file.name: kind
    for kind in (
        Format(
            _file("mepol-policy-1", needs_digest=False),
            lambda actor: type(actor) is GaussianPolicy,
            networks.pack_gaussian,
            networks.plan_gaussian,
            build_gaussian,
        ),
        Format(
            _file("mepol-choices-1"),
            lambda actor: type(actor) is CategoricalPolicy,
            networks.pack_categorical,
            networks.plan_categorical,
            networks.build_categorical,
        ),
        Format(
            _file("mepol-population-1"),
            lambda actor: type(actor) is PopulationPolicy,
            networks.pack_population,
            networks.plan_population,
            networks.build_population,
        ),
        Format(
            _file("mepol-mixture-1"),
            lambda actor: isinstance(actor, Mixture),
            _pack_mixture,
            _plan_mixture,
            _build_mixture,
        ),
        Format(
            _file("mepol-squashed-1"),
            lambda actor: isinstance(actor, SquashedPolicy),
            _pack_squashed,
            _plan_squashed,
            _build_squashed,
        ),
        Format(_file(GIVEN), lambda actor: isinstance(actor, nn.Module), _pack_given, _plan_given, _build_given),
    )
}

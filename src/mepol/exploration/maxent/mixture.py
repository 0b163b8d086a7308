"""What MaxEnt knows of its mixture beyond how it acts: the weights of its components, and its file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from mepol.algorithm.policy import GaussianPolicy
from mepol.errors import PolicyFileError
from mepol.runs.files import Layout, TensorFormat, tensor_bytes
from mepol.runs.policies import checked_widths, tensor_shapes
from mepol.sampling.actors import Mixture, UniformActor

FORMAT = "mepol-mixture-1"
FILE = TensorFormat(
    FORMAT,
    PolicyFileError,
    source="a mixture from",
    foreign=f"is not a mepol mixture: its header has no format {FORMAT!r}",
    not_finite="holds impossible weights",
)
DECAY = 0.9  # of the geometric weights, a component; Hazan et al.'s code


# --- Weights ------------------------------------------------------------------------------------------------------


def mixture_weights(n: int, kind: Literal["uniform", "geometric"]) -> NDArray[np.float64]:
    """(n,) weights of n components, oldest first.

    "geometric" is what Hazan et al.'s code does: 0.9^(n - j), brought to the simplex by Euclidean projection, not by
    division. From the fifth on, that leaves the five newest components and nothing of the others.
    """
    if kind == "uniform":
        return np.full(n, 1.0 / n)
    return simplex_projection(DECAY ** (n - np.arange(n, dtype=np.float64)))


def simplex_projection(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) the point of the probability simplex nearest to `values` (n,)."""
    falling = np.sort(values)[::-1]
    surplus = (falling.cumsum() - 1.0) / np.arange(1, len(values) + 1)
    threshold = surplus[np.flatnonzero(falling > surplus)[-1]]
    projected = np.maximum(values - threshold, 0.0)
    return np.asarray(projected / projected.sum(), dtype=np.float64)


# --- Files --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SavedMixture:
    """A mixture and the environment steps that it took to reach it."""

    mixture: Mixture
    samples: int


def mixture_bytes(mixture: Mixture, samples: int) -> bytes:
    """A mixture as safetensors, with a digest; equal mixtures give equal bytes. All policies have the same widths."""
    tensors = {
        "weights": torch.from_numpy(mixture.weights),
        "low": torch.from_numpy(mixture.uniform.low),
        "high": torch.from_numpy(mixture.uniform.high),
    }
    for i, policy in enumerate(mixture.policies):
        tensors |= {f"{i}.{name}": tensor for name, tensor in policy.state_dict().items()}
    widths = list(mixture.policies[0].widths) if mixture.policies else []
    header = {"format": FORMAT, "size": str(len(mixture.policies)), "draw": mixture.draw, "samples": str(samples)}
    return tensor_bytes(tensors, {**header, "widths": json.dumps(widths)})


def load_mixture(path: Path) -> SavedMixture:
    """Read what `mixture_bytes` wrote; nothing in the file is executed, and nothing is allocated before it fits.

    Raises PolicyFileError when the file is missing, damaged, foreign or inconsistent.
    """

    def check(header: dict[str, str], layout: Layout) -> tuple[int, tuple[int, ...], Literal["step", "episode"]]:
        size, samples = _number(header.get("size"), path), _number(header.get("samples"), path)
        widths = checked_widths(header.get("widths", ""), path) if size else ()
        _check(layout, size, widths, path)
        return samples, widths, "episode" if header.get("draw") == "episode" else "step"

    (samples, widths, draw), tensors = FILE.read(path, check)
    low, high, weights = (tensors[name].numpy() for name in ("low", "high", "weights"))
    if weights.min() < 0 or abs(weights.sum() - 1) > 1e-9:
        raise PolicyFileError(f"{path} {FILE.not_finite}")
    policies = []
    for i in range(len(weights) - 1):
        policy = GaussianPolicy(widths[0], widths[-1], widths[1:-1])
        policy.load_state_dict({name: tensors[f"{i}.{name}"] for name in tensor_shapes(widths)})
        policies.append(policy)
    return SavedMixture(Mixture(UniformActor(low, high), tuple(policies), weights, draw), samples)


def _number(text: str | None, path: Path) -> int:
    if text is None or not (text.isdecimal() and text.isascii() and len(text) < 19):
        raise PolicyFileError(f"{path} has an unreadable header")
    return int(text)


def _check(layout: Layout, size: int, widths: tuple[int, ...], path: Path) -> None:
    """Names, shapes and types must be those of `size` policies with these widths."""
    actions = [widths[-1]] if widths else layout["low"][0] if "low" in layout else []
    wanted = {"weights": ([size + 1], "F64"), "low": (actions, "F32"), "high": (actions, "F32")}
    if len(layout) == len(wanted) + size * (len(tensor_shapes(widths)) if size else 0):  # before `size` is believed
        for i in range(size):
            wanted |= {f"{i}.{name}": (shape, "F32") for name, shape in tensor_shapes(widths).items()}
    if layout != wanted or len(actions) != 1:
        raise PolicyFileError(f"{path} does not hold the tensors of a mixture of {size} policies with widths {widths}")

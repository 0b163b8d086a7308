"""A fine-tuning run's state between two iterations, as safetensors. No pickle."""

from __future__ import annotations

from pathlib import Path

from mepol.errors import CheckpointError
from mepol.runs.tensors import Layout, TensorFormat, tensor_bytes
from mepol.runs.state import State

FORMAT = "mepol-finetune-1"
FILE = TensorFormat(
    FORMAT,
    CheckpointError,
    source="the checkpoint",
    foreign=f"is not a checkpoint of format {FORMAT!r}",
    not_finite="holds NaN or infinite values",
)


def state_bytes(state: State, iteration: int, samples: int) -> bytes:
    """The whole state as one file. Raises CollapseError when it is no longer finite."""
    header = {"format": FORMAT, "iteration": str(iteration), "samples": str(samples)}
    return tensor_bytes(state.tensors(f"iteration {iteration}"), header)


def load_state(path: Path, state: State) -> tuple[int, int]:
    """Put the file's content into `state`; returns iteration and samples. Raises CheckpointError.

    Everything is read and checked before anything is changed; nothing in the file is executed.
    """

    def check(header: dict[str, str], layout: Layout) -> tuple[int, int]:
        numbers = [header.get("iteration", ""), header.get("samples", "")]
        if not all(n.isdecimal() and len(n) < 19 for n in numbers):
            raise CheckpointError(f"{path} {FILE.foreign}")
        state.check(layout, path)
        return int(numbers[0]), int(numbers[1])

    position, tensors = FILE.read(path, check)
    state.restore(tensors)
    return position

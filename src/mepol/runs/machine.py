"""Settings of the machine that a run is on: none of them changes a number of the result."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Annotated

from mepol.neighbours import torch_threads
from mepol.settings import at_least, check, within


@dataclass(frozen=True)
class MachineConfig:
    """Threads, limits, and how much work a crash may cost: a checkpoint is written at whichever comes first."""

    threads: Annotated[int, at_least(0, "0: all cores")] = 0
    """CPU threads; 0 for all cores. The result does not depend on it."""
    env_time_limit: Annotated[float, within(0, 1e6, "s")] = 0.0
    """Seconds that one call of the environment may take before the run is stopped; 0 for no limit."""
    checkpoint_epochs: Annotated[int, at_least(1)] = 10
    """Epochs (iterations, in fine-tuning) between checkpoints, at most."""
    checkpoint_minutes: Annotated[float, at_least(0)] = 1.0
    """Minutes between checkpoints, at most (as far as an epoch's end allows)."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def cores(self) -> int:
        """CPU threads that are meant: `threads`, or one per core where that is 0."""
        return self.threads or os.cpu_count() or 1


@contextmanager
def as_before() -> Iterator[None]:
    """Environment variables and filters of warnings are as before after the block, whatever a library sets in it.

    Torch's optimisers, for one, load its compiler when they are first used, which sets variables of its own.
    """
    environment = dict(os.environ)
    try:
        with warnings.catch_warnings():
            yield
    finally:
        for name in set(os.environ) - set(environment):
            del os.environ[name]
        os.environ.update({name: value for name, value in environment.items() if os.environ.get(name) != value})


@contextmanager
def threads_in_force(machine: MachineConfig) -> Iterator[None]:
    """Within the block torch works on the machine's threads; afterwards the process is as it was before."""
    with as_before(), torch_threads(machine.cores):
        yield


MACHINE_SETTINGS = tuple(item.name for item in fields(MachineConfig))
"""Names of the settings that may differ between runs that are otherwise the same."""


def machine_apart(data: dict[str, object]) -> dict[str, object]:
    """Stored settings of either phase with those of the machine, which once lay among the others, in `machine`."""
    if "machine" in data:
        return data
    own = {name: data.pop(name) for name in MACHINE_SETTINGS if name in data}
    checkpoints = data.pop("checkpoints", {})
    return {**data, "machine": {**own, **checkpoints} if isinstance(checkpoints, dict) else checkpoints}

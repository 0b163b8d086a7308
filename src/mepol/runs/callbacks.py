"""What may look on after each turn, and end the run: one protocol for both phases, and what is shipped.

    def callback(progress: Progress) -> bool | None: ...

It is called after each epoch or iteration with the row, the policy and the batch. Returning True ends the run well:
one more turn measures the policy that was reached, and the run is finished, with every file in place.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mepol.algorithm.batch import Batch
from mepol.errors import ConfigError, MepolError


@dataclass(frozen=True)
class Progress:
    """Where a run stands after a turn."""

    row: Any
    """Its line of metrics.csv; about the policy that the turn began with."""
    length: int
    """Turns of the whole run."""
    policy: Any
    """What acts now, after the turn."""
    batch: Batch | None
    """The trajectories that the turn learnt from, where there are such."""
    run: Any
    """The run directory."""
    extra: dict[str, Any] = field(default_factory=dict)
    """`evaluation`, where the turn made one."""

    @property
    def turn(self) -> int:
        """Number of the turn."""
        return int(getattr(self.row, self.run.phase.turn))


Callback = Callable[[Progress], bool | None]


@dataclass(frozen=True)
class StopAt:
    """Ends a run once a column of metrics.csv is `value` or more.

    >>> import mepol
    >>> run = mepol.resume("runs/gridworld", length=99, callbacks=[mepol.StopAt("cells", 2)], progress=False)
    >>> run.finished, run.metrics["epoch"].tolist()
    (True, [0, 1, 2, 3])
    """

    column: str
    value: float

    def __call__(self, progress: Progress) -> bool:
        """Whether the row has reached the value."""
        if not hasattr(progress.row, self.column):
            known = ", ".join(f.name for f in dataclasses.fields(progress.row))
            raise ConfigError(f"no column {self.column!r} to stop at; there are {known}")
        reached = getattr(progress.row, self.column)
        return reached is not None and reached >= self.value


# Names of logged values, as people who watch several libraries expect them; others keep their column's.
NAMES = {
    "index": "charts/entropy_index",
    "discrete_entropy": "charts/discrete_entropy",
    "pooled_entropy": "charts/pooled_entropy",
    "cells": "charts/cells",
    "total_cells": "charts/total_cells",
    "average_return": "charts/average_return",
    "success_rate": "charts/success_rate",
    "steps_to_goal": "charts/steps_to_goal",
}


def logged(progress: Progress) -> dict[str, float]:
    """The numbers of a row by the names they are logged under; what was not measured is left out."""
    row = dataclasses.asdict(progress.row)
    counters = (progress.run.phase.turn, "samples")
    table = {NAMES.get(name, f"train/{name}"): v for name, v in row.items() if v is not None and name not in counters}
    seconds = sum(v for name, v in row.items() if name.endswith("_s") and v is not None)
    if seconds and progress.batch is not None:
        table["charts/SPS"] = progress.batch.size / seconds
    return {name: float(value) for name, value in table.items()}


class TensorBoard:
    """Writes each row to TensorBoard, against environment steps; by default into the run's own `tensorboard/`.

    >>> import mepol
    >>> run = mepol.resume("runs/gridworld", length=3, callbacks=[mepol.TensorBoard()], progress=False)
    >>> len(list((run.path / "tensorboard").iterdir()))
    1
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._writer: Any = None
        _extra("torch.utils.tensorboard", "tensorboard")

    def __call__(self, progress: Progress) -> None:
        """Write the row; the file is complete after each one."""
        if self._writer is None:
            if self.folder is None:
                progress.run.door.folder("tensorboard")
            place = self.folder or progress.run.path / "tensorboard"
            self._writer = _extra("torch.utils.tensorboard", "tensorboard").SummaryWriter(str(place))
        for name, value in logged(progress).items():
            self._writer.add_scalar(name, value, progress.row.samples)
        self._writer.flush()


class WeightsAndBiases:
    """Logs each row to Weights & Biases, against environment steps.

    project: of the run there; mode: `online`, `offline` (into `folder`, to be synchronised later) or as W&B decides.

    >>> import mepol
    >>> log = mepol.WeightsAndBiases("covering", mode="offline", folder="logs")  # callbacks=[log]
    """

    def __init__(self, project: str = "mepol", mode: str | None = None, folder: str | Path | None = None) -> None:
        self._settings = {"project": project, "mode": mode, "dir": None if folder is None else str(folder)}
        self._run: Any = None
        _extra("wandb", "wandb")

    def __call__(self, progress: Progress) -> None:
        """Log the row."""
        if self._run is None:
            config = dataclasses.asdict(progress.run.config)
            wandb = _extra("wandb", "wandb")
            self._run = wandb.init(name=progress.run.path.name, config=config, reinit="create_new", **self._settings)
        self._run.log({**logged(progress), "samples": progress.row.samples}, step=progress.turn)
        if getattr(progress.row, progress.run.phase.learnt) is None:
            self._run.finish()
            self._run = None


LOGGERS: dict[str, Callable[[], Callback]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}
"""What `--log NAME` means."""


def logger(name: str) -> Callback:
    """The callback that `--log NAME` asks for."""
    if name not in LOGGERS:
        raise ConfigError(f"no logger {name!r}; there are {', '.join(LOGGERS)}")
    return LOGGERS[name]()


def _extra(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as fault:
        raise MepolError(f"logging needs {package}, which is not installed: pip install 'mepol[log]'") from fault

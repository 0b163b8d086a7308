"""What looks on while a run goes on, by flags: loggers, and targets to stop at."""

from __future__ import annotations

from dataclasses import dataclass

from mepol.commands.terminal import SomeFloat
from mepol.runs.callbacks import Callback, StopAt, logger


@dataclass(frozen=True)
class LogArguments:
    """Loggers of a run of either phase."""

    log: tuple[str, ...] = ()
    """Loggers that get each row: tensorboard, wandb."""

    def callbacks(self) -> tuple[Callback, ...]:
        """What they ask for."""
        return tuple(logger(name) for name in self.log)


@dataclass(frozen=True)
class WatchArguments(LogArguments):
    """What looks on: loggers, and for an exploration targets to stop at."""

    stop_index: SomeFloat = None
    """End the run well once an evaluation's entropy index is this or more, in nats."""
    stop_discrete: SomeFloat = None
    """End the run well once an evaluation's discrete entropy is this or more, in nats."""

    def callbacks(self) -> tuple[Callback, ...]:
        """What they ask for."""
        stops = {"index": self.stop_index, "discrete_entropy": self.stop_discrete}
        targets = (StopAt(column, value) for column, value in stops.items() if value is not None)
        return (*super().callbacks(), *targets)

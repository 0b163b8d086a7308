"""Who draws the batches of one run, by flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mepol.cluster import ray_sampler
from mepol.commands.terminal import SomeText
from mepol.errors import ConfigError
from mepol.exploration.workshop import Given


@dataclass(frozen=True)
class SamplingArguments:
    """Who draws the batches; none of this changes a number."""

    sampler: Literal["local", "ray"] = "local"
    """Who draws the batches: this process, or actors on a Ray cluster (docs/guide/scale.md)."""
    workers: int = 2
    """Actors of --sampler ray; the result does not depend on it."""
    address: SomeText = None
    """Of a Ray cluster that this machine is a node of, HOST:PORT or auto; by default Ray is started on this machine
    alone."""

    def given(self) -> Given:
        """What they ask for, as what a run is handed."""
        if self.sampler == "local" and self != SamplingArguments():
            raise ConfigError("--workers and --address are of a cluster: give --sampler ray, too")
        return Given(sampler=ray_sampler(self.workers, self.address) if self.sampler == "ray" else None)

"""Who draws the batches of a run, where that is not this process itself."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from mepol.algorithm.batch import Batch
from mepol.envs.make import Environments
from mepol.neighbours import Pool
from mepol.sampling.collect import Actor


class Sampler(Pool, Protocol):
    """Draws the same batches as `collect`, elsewhere; its workers search neighbours, too.

    It is a context: within it workers may be kept, and when it is left none goes on.
    """

    def __enter__(self) -> Any:
        """Ready to draw."""
        ...

    def __exit__(self, *error: object) -> None:
        """Nothing of it goes on."""
        ...

    def collect(
        self, actor: Actor, environments: Environments, num_envs: int, horizon: int, *, seed: np.random.SeedSequence
    ) -> Batch:
        """One trajectory of `horizon` steps from each of `num_envs` sub-environments, bit for bit as `collect` does."""
        ...

"""What an exploration leaves in its tables, and the entry that makes its run directories known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mepol.exploration.config import ExploreConfig
from mepol.exploration.workshop import NOTHING, domain_of, environments_of, protocol_of
from mepol.runs.phases import Phase, register
from mepol.runs.tables import Table


@dataclass(frozen=True, slots=True)
class MetricsRow:
    """One policy. Entropies and KL in nats, times in seconds; None is an empty cell (docs/reference/metrics.md)."""

    epoch: int
    samples: int  # environment steps spent to reach this policy
    entropy: float | None = None
    kl: float | None = None
    steps: int | None = None
    ess: float | None = None
    learning_rate: float | None = None
    sample_s: float | None = None
    knn_s: float | None = None
    optimise_s: float | None = None
    index: float | None = None
    discrete_entropy: float | None = None
    pooled_entropy: float | None = None
    cells: int | None = None
    coinciding: int | None = None  # particles of the batch that were held apart by the floor
    true_index: float | None = None  # of the true state, where pictures are observed
    horizon: int | None = None  # steps of the batch's trajectories, where a curriculum decides on them
    batches: int | None = None  # that Eq. 2 was climbed on, where earlier ones are used again
    total_cells: int | None = None  # that any batch up to this one has visited


@dataclass(frozen=True, slots=True)
class StepRow:
    """One tried gradient step: what Eq. 2 and Eq. 3 say of where it led.

    A step below 0 is none: before the first, a union of so many batches was given up for its small `ess`.
    """

    epoch: int
    step: int
    accepted: int
    learning_rate: float | None
    entropy: float | None
    kl: float | None
    ess: float


def length_of(config: ExploreConfig, given: Any = None) -> int:
    """Epochs of a whole run: what its explorer makes of its settings."""
    from mepol.exploration.explorers import kind_of  # whose explorers write rows themselves

    return kind_of(config, given or NOTHING).length(config)


def _resume(path: Path, **options: Any) -> Any:
    from mepol.exploration.drive import resume  # which writes these rows

    return resume(path, **options)


EXPLORE: Phase[ExploreConfig, MetricsRow] = register(
    Phase(
        name="explore",
        turn="epoch",
        config=ExploreConfig,
        metrics=Table("metrics.csv", MetricsRow),
        score="index",
        learnt="optimise_s",
        names=lambda config: (config.env, *config.wrappers, *(world["env"] for world in config.worlds.envs)),
        length=length_of,
        environments=environments_of,
        domain=domain_of,
        protocol=protocol_of,
        resume=_resume,
        lengths=("epochs", "mixture_size"),
        details=Table("steps.csv", StepRow, finite=False, most=1_000_000),
    )
)

"""What a fine-tuning leaves in its table, and the entry that makes its run directories known."""

from __future__ import annotations

from dataclasses import dataclass

from mepol.finetuning.config import FinetuneConfig
from mepol.runs.phases import Phase, register
from mepol.runs.tables import Table


@dataclass(frozen=True, slots=True)
class FinetuneRow:
    """One policy; None is written as an empty cell. Formulas are in docs/finetune.md."""

    iteration: int
    samples: int  # environment steps spent to reach this policy
    average_return: float | None = None
    success_rate: float | None = None
    steps_to_goal: float | None = None
    episodes: int | None = None
    sample_s: float | None = None
    learn_s: float | None = None


FINETUNE: Phase[FinetuneConfig, FinetuneRow] = register(
    Phase(
        name="finetune",
        turn="iteration",
        config=FinetuneConfig,
        metrics=Table("metrics.csv", FinetuneRow),
        score="average_return",
        learnt="learn_s",
        marker="task",
        names=lambda config: (config.task, config.env),
        length=lambda config: config.iterations,
    )
)

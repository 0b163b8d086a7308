"""How a run of either phase is shown while it goes on: a bar on a terminal or in a notebook, lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mepol.console.screen import counting, stdout
from mepol.runs.callbacks import Progress


@contextmanager
def telling(turn: str, length: int, *, shown: bool = True) -> Iterator[Callable[[Progress], None]]:
    """Yields what is called with each progress of a run of `length` turns; nothing is printed unless `shown`."""
    if not shown:
        yield lambda _: None
        return
    with counting(turn, length) as tell:
        yield lambda p: tell(p.turn, p.length, TEXTS[p.run.phase.name](p), _is_kept(p))


def noting(sentence: str) -> None:
    """Print a sentence that a user should read once."""
    stdout.print(f"note: {sentence}")


def _is_kept(progress: Progress) -> bool:
    """Whether a turn's line stays on the screen: those that were measured, and every tenth iteration."""
    measured = "evaluation" in progress.extra
    return measured or (progress.run.phase.name == "finetune" and progress.turn % 10 == 0)


def _exploration(progress: Progress) -> str:
    """The batch's entropy and the index are of unlike numbers of trajectories, and so not on one scale: both say so."""
    row, config, parts = progress.row, progress.run.config, []
    if row.entropy is not None:
        batch = f"entropy ({config.trajectories} learnt from) {row.entropy:7.3f}"
        parts.append(f"{batch}  kl {row.kl:6.3f}  steps {row.steps:2d}")
    if row.index is not None:
        parts.append(f"index ({config.evaluation.evaluation_trajectories} fresh) {row.index:7.3f}")
    if row.true_index is not None:
        parts.append(f"of the true state {row.true_index:6.3f}")
    if row.discrete_entropy is not None:
        parts.append(f"discrete {row.discrete_entropy:5.3f}")
    return "  ".join(parts)


def _finetuning(progress: Progress) -> str:
    row = progress.row
    steps = "" if row.steps_to_goal is None else f"  steps to goal {row.steps_to_goal:6.1f}"
    success = "" if progress.run.config.own_reward else f"  success {number(row.success_rate)}"
    return f"return {number(row.average_return)}{success}{steps}"


def number(value: float | None) -> str:
    """Three decimals, or a dash for what was not measured."""
    return "-" if value is None else f"{value:.3f}"


TEXTS: dict[str, Callable[[Progress], str]] = {"explore": _exploration, "finetune": _finetuning}
"""What a row says in a line."""

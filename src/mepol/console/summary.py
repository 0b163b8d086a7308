"""What a finished run of either phase says of itself, and where everything is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mepol.console.progress import number
from mepol.console.screen import stdout
from mepol.errors import MepolError
from mepol.exploration.explorers import explorer_kind
from mepol.exploration.workshop import open_workshop
from mepol.exploration.worlds.measures import world_rows
from mepol.figures.summary import Summary, summarise
from mepol.runs.changes import changes_of
from mepol.runs.directory import RunDirectory
from mepol.runs.domain import load_domain
from mepol.runs.drive import best_kept
from mepol.runs.machine import threads_in_force
from mepol.runs.streams import Stream, stream

Directory = RunDirectory[Any, Any]


def print_summary(run: Directory) -> None:
    """Draw a finished run's figures, and print what it reached and where they are."""
    SUMMARIES[run.phase.name](run)


def _exploration(run: Directory) -> None:
    summary = summarise(run)
    ceiling = "" if summary.ceiling is None else f" (ceiling {summary.ceiling:.3f})"
    first, best, last = summary.first, summary.best, summary.last
    stdout.print(f"entropy index {first.index:.3f} -> {last.index:.3f} nats{ceiling}, {last.samples} training samples")
    for change in changes_of(run):
        since = f"{change.setting} is {change.after:g} from epoch {change.turn} on, {change.before:g} before"
        stdout.print(f"{since}: {_SCALE}")
    if best.epoch != last.epoch:
        stdout.print(f"best {best.index:.3f} nats at epoch {best.epoch}, kept as best.safetensors (--which best)")
    if last.epoch and (worse := ", and ".join(_worse(run, summary))):
        stdout.print(f"it ends {worse}: more epochs, more trajectories or smaller steps may help")
    if None not in (first.true_index, last.true_index):
        stdout.print(f"of the true state behind the pictures {first.true_index:.3f} -> {last.true_index:.3f} nats")
    for row in (row for row in world_rows(run) if row.epoch == last.epoch):
        stdout.print(f"  in {row.world} (probability {row.probability:g}): index {row.index:.3f} nats")
    if first.discrete_entropy is not None:
        stdout.print(
            f"discrete entropy {first.discrete_entropy:.3f} -> {number(last.discrete_entropy)} nats per episode, "
            f"cells visited {first.cells} -> {last.cells}"
        )
    elif run.config.encoder != "none":
        stdout.print("no heatmap: the environment does not tell a true state behind its pictures")
    elif load_domain(run).tabular:
        stdout.print("no heatmap: its states are counted, and lie along no coordinate")
    else:
        stdout.print(f"no heatmap: the range of its coordinates is unknown; mepol heatmaps {run.path} draws them")
    stdout.print(f"run directory {run.path}; figures:")
    for figure in summary.figures:
        stdout.print(f"  {figure}")


_SCALE = "indices before and after it are not on one scale, and this run does not equal one that was never stopped"


def _worse(run: Directory, summary: Summary) -> Iterator[str]:
    """What the last policy falls short of: where the run began, and uniform random play."""
    first, last = summary.first.index, summary.last.index
    assert first is not None
    assert last is not None
    if last < first and not changes_of(run):
        yield f"below where it began ({last:.3f} after {first:.3f} nats)"
    if (uniform := uniform_index(run, summary.last.epoch)) is not None and last < uniform:
        yield f"below uniform random play ({last:.3f} against {uniform:.3f} nats)"


def uniform_index(run: Directory, turn: int) -> float | None:
    """Entropy index of uniform actions, nats, on as many trajectories as the policy of `turn`, from the same starts.

    None where it cannot be had: an environment that is not here, or actions without bounds.
    """
    config = run.config
    try:
        with threads_in_force(config.machine), open_workshop(config, domain=load_domain(run)) as workshop:
            actor = explorer_kind("uniform").make(workshop).actor()
            return workshop.assess(actor, stream(config.seed, Stream.EVALUATION, turn)).evaluation.index
    except MepolError:
        return None


def _finetuning(run: Directory) -> None:
    rows = run.rows()
    first, last = rows[0], rows[-1]
    success = f"success rate {number(first.success_rate)} -> {number(last.success_rate)}, "
    stdout.print(
        f"average return {number(first.average_return)} -> {number(last.average_return)}, "
        f"{'' if run.config.own_reward else success}{last.samples} samples"
    )
    kept = best_kept(run)
    if kept is not None and (last.average_return is None or kept[1] > last.average_return):
        stdout.print(f"best {kept[1]:.3f} at iteration {kept[0]}, kept as best.safetensors (--which best)")
    if None not in (first.average_return, last.average_return) and last.average_return < first.average_return:
        stdout.print(
            f"it ends below where it began ({last.average_return:.3f} after {first.average_return:.3f}): "
            "take --which best, or a smaller step"
        )
    stdout.print(f"run directory {run.path}")


SUMMARIES: dict[str, Callable[[Directory], None]] = {"explore": _exploration, "finetune": _finetuning}

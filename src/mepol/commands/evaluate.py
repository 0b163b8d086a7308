"""`mepol evaluate RUN...`: measure on fresh trajectories what the policies of runs cover."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.table import Table

from mepol.commands.terminal import SomeFloat, SomeInt, SomeText, Which, at_least, parse
from mepol.console.screen import stdout
from mepol.evaluation.assess import Assessment
from mepol.evaluation.yardsticks import find_yardstick
from mepol.run import Run
from mepol.runs.alike import alike
from mepol.runs.directory import RunDirectory
from mepol.runs.groups import MEASURES, GroupMeasure, aggregate, group_runs

CELLS = ("discrete_entropy", "pooled_entropy", "cells", "coverage")


@dataclass(frozen=True)
class EvaluateArguments:
    """Measure on fresh trajectories what the policies of runs cover."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories, of exploration or of fine-tuning; those that differ in their seed alone are also aggregated."""
    which: Which = "last"
    """Which policy of each is measured."""
    trajectories: int = 100
    """Fresh trajectories."""
    k: SomeInt = None
    """Neighbours of every entropy estimate; by default the run's."""
    eps: SomeFloat = None
    """Volume added to every neighbour ball; by default the run's."""
    features: SomeText = None
    """Coordinates that the index is taken of, as `mepol explore --features` names them, in raw units of distance; by
    default the run's."""
    pairs: tuple[str, ...] = ()
    """Further pairs of coordinates for discrete entropies: `x,z`, or with ranges and bins `x:-12:12:40,z:0:2:20`."""
    horizons: tuple[int, ...] = ()
    """Testing horizons h of the h-step entropy H(d_h) and the average entropy of steps 1 to h."""
    mixing_threshold: float = 0.0
    """Estimate the mixing time at this threshold (a probability); 0 does not."""
    yardstick: tuple[str, ...] = ()
    """Yardsticks of the field, with trajectories of their own: metra, single-trial."""
    seed: int = 0
    """Of the fresh trajectories; none of them was used in training."""
    anyway: bool = False
    """Measure runs of different environments or features side by side."""
    json: bool = False
    """Print JSON instead of a table."""


def command(arguments: list[str]) -> None:
    """Measure, and print a table or JSON: one object for one run, `runs` and `groups` for several."""
    parsed = parse(EvaluateArguments, arguments, "mepol evaluate")
    at_least("trajectories", parsed.trajectories, 1)
    at_least("runs", len(parsed.runs), 1)
    at_least("seed", parsed.seed, 0)
    names = ("which", "k", "eps", "features", "pairs", "horizons", "mixing_threshold")
    asked = {name: getattr(parsed, name) for name in names}
    found = group_runs([RunDirectory.open(path) for path in parsed.runs])
    runs = [run for group in found for run in group.runs]
    for name in parsed.yardstick:
        find_yardstick(name)
    measured = alike(runs, {name: getattr(parsed, name) for name in ("trajectories", "k", "eps", "features")})
    if not parsed.anyway:
        measured.require_one_thing()
    records = {run.path: _record(Run(run), parsed.trajectories, parsed.seed, asked) for run in runs}
    for run in runs:
        for name in parsed.yardstick:
            records[run.path] |= Run(run).yardstick(name, which=parsed.which, seed=parsed.seed)
    groups = {
        group.title: aggregate([records[run.path] for run in group.runs], _measures(records[group.runs[0].path]))
        for group in found
    }
    if parsed.json:
        unlike = {"warning": measured.warning} if measured.warning else {}
        several = {**unlike, "runs": list(records.values()), "groups": {name: _plain(m) for name, m in groups.items()}}
        stdout.print(json.dumps(several if len(runs) > 1 else records[runs[0].path]))
        return
    for record in records.values():
        _print_record(record, named=len(runs) > 1)
    if len(runs) > 1:
        _print_groups(groups)
    if measured.warning:
        stdout.print(measured.warning)


def _record(run: Run, trajectories: int, seed: int, asked: dict[str, Any]) -> dict[str, Any]:
    found = run.evaluate(trajectories=trajectories, seed=seed, **asked)
    head = {"run": str(run.path), "which": asked["which"], "seed": run.config.seed, "trajectories": trajectories}
    return {**head, **_flat(found)}


def _measures(record: dict[str, Any]) -> tuple[str, ...]:
    """What is aggregated over seeds; the index in each world, too, where there are several."""
    return (*MEASURES, "coverage", "true_index", *(name for name in record if name.startswith("index[")))


def _flat(assessment: Assessment) -> dict[str, Any]:
    """The measures of an assessment under one name each; of a further pair, or of one world, they carry its name."""
    flat = {k: v for k, v in dataclasses.asdict(assessment.evaluation).items() if k != "visits" and v is not None}
    for text, cells in assessment.pairs.items():
        flat |= {f"{name}[{text}]": value for name in CELLS if (value := getattr(cells, name)) is not None}
    shown = ("particles", "index", *CELLS)
    for world, own in assessment.worlds.items() if len(assessment.worlds) > 1 else ():
        flat |= {f"{name}[{world}]": value for name, value in _flat(own).items() if name in shown}
    if assessment.horizons:
        flat["horizons"] = [dataclasses.asdict(row) for row in assessment.horizons]
    if (mixing := assessment.mixing) is not None:
        flat |= {
            "mixing_steps": mixing.steps,
            "mixing_threshold": mixing.threshold,
            "mixing_noise": mixing.noise,
            "mixing_resolved": mixing.resolved,
        }
    return flat


def _plain(measures: list[GroupMeasure]) -> dict[str, Any]:
    return {m.measure: {"n": m.mean.n, "mean": _ends(m.mean), "iqm": _ends(m.iqm)} for m in measures}


def _ends(interval: Any) -> dict[str, float | None]:
    return {"centre": interval.centre, "low": interval.low, "high": interval.high}


def _print_record(record: dict[str, Any], *, named: bool) -> None:
    table = Table("measure", "value", "particles", title=record["run"] if named else None)
    for name, value in record.items():
        if name not in ("run", "which", "seed", "trajectories", "horizons") and not name.startswith("particles"):
            rests_on = record.get(f"particles{name[name.find('[') :]}", record["particles"])  # of a world, on its own
            table.add_row(name, f"{value:.4f}" if isinstance(value, float) else str(value), str(rests_on))
    for row in record.get("horizons", ()):
        table.add_row(f"H(d_h), h = {row['h']}", f"{row['step_entropy']:.4f}", str(row["step_particles"]))
        table.add_row(f"average to h = {row['h']}", f"{row['average_entropy']:.4f}", str(row["average_particles"]))
    stdout.print(table, soft_wrap=False)


def _print_groups(groups: dict[str, list[GroupMeasure]]) -> None:
    table = Table("runs", "seeds", "measure", "mean (95 % t)", "IQM (95 % bootstrap)")
    for name, measures in groups.items():
        for m in measures:
            table.add_row(name, str(m.mean.n), m.measure, str(m.mean), _range(m.iqm))
    stdout.print(table, soft_wrap=False)


def _range(interval: Any) -> str:
    text = f"{interval.centre:.3f}"
    return text if interval.low is None else f"{text} [{interval.low:.3f}, {interval.high:.3f}]"

"""`mepol sweep FILE|PRESET`: seeds and variants in parallel processes, with resume."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from mepol.cluster.engine import Storage
from mepol.cluster.engines import ENGINES
from mepol.commands.compare import write_comparison
from mepol.commands.terminal import SomeInt, SomePath, SomeText, assignment, at_least, parse, resumable
from mepol.console.screen import stderr, stdout
from mepol.errors import ConfigError, RunError
from mepol.exploration.presets import PRESETS, starting_config
from mepol.exploration.study import MAX_RUNS, Member, Study, read_study, seeds_of, study_of
from mepol.exploration.sweep import Engine, Outcome, log_path, run_members, write_summary
from mepol.runs.directory import RunDirectory
from mepol.runs.files import require_place
from mepol.runs.groups import Group
from mepol.runs.text import file_name
from mepol.settings import with_settings


@dataclass(frozen=True)
class SweepArguments:
    """Run seeds and variants of a study in parallel; the same command again goes on where it was stopped."""

    study: tyro.conf.Positional[str]
    """A TOML file (see docs/guide/comparing.md), a preset, or an environment as in `mepol explore`."""
    seeds: SomeInt = None
    """Seeds 0 .. N-1 of each variant; by default the study's, or 8 of a preset."""
    jobs: SomeInt = None
    """Runs at a time; by default 1, or as many as a cluster has room for."""
    engine: Literal["local", "ray"] = "local"
    """Who works on the runs: processes of this machine, or tasks of a Ray cluster (docs/guide/scale.md)."""
    address: SomeText = None
    """Of a Ray cluster that this machine is a node of, HOST:PORT or auto; by default Ray is started on this machine
    alone."""
    storage: Storage = "pull"
    """With --engine ray: send what nodes write to --out here as it is written, or write it there, where --out is on a
    path that all nodes see (shared)."""
    out: SomePath = None
    """Directory of the members; by default sweeps/NAME."""
    only: tuple[str, ...] = ()
    """Members (variant-seed-S) or variants to run; all by default."""
    set: tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]] = ()
    """Settings for all variants, as NAME=VALUE with a TOML value: epochs=30 hidden=[64,64]; may be given several
    times."""
    against: Literal["samples", "epoch"] = "samples"
    """What the curves of the pictures are drawn over."""


def command(arguments: list[str]) -> None:
    """Run the study; fails at the end, in one sentence, if any member did."""
    parsed = parse(SweepArguments, arguments, "mepol sweep")
    local = parsed.engine == "local"
    jobs = parsed.jobs if parsed.jobs is not None else 1 if local else MAX_RUNS
    at_least("jobs", jobs, 1)
    if local and (parsed.address is not None or parsed.storage != "pull"):
        raise ConfigError("--address and --storage are of a cluster: give --engine ray, too")
    name, study = _study(parsed)
    out = parsed.out or Path("sweeps") / name
    threads = max(1, (os.cpu_count() or 1) // jobs) if local else 1
    members = study.members(out, threads)
    if parsed.only:
        chosen = [m for m in members if m.name in parsed.only or m.variant in parsed.only]
        if missing := [o for o in parsed.only if all(o not in (m.name, m.variant) for m in chosen)]:
            raise ConfigError(f"no member {missing[0]!r}; there are {', '.join(m.name for m in members)}")
        members = chosen
    each = " or ".join(str(t) for t in sorted({m.config.machine.threads for m in members}))
    many = "as many at a time as there is room for" if jobs == MAX_RUNS else f"{jobs} at a time"
    stdout.print(f"{len(members)} runs in {out}, {many} with {each} threads each")
    require_place(out)
    with resumable(out, "the same command", mark=""):
        outcomes = _with_progress(members, ENGINES[parsed.engine](parsed.address, parsed.storage), jobs)
    stdout.print(f"summary {write_summary(outcomes, out)}")
    if done := [o for o in outcomes if o.state == "done"]:
        for path in write_comparison(_groups(done), out, against=parsed.against):
            stdout.print(f"  {path}")
    if failed := [o for o in outcomes if o.state == "failed"]:
        raise RunError(
            f"{len(failed)} of {len(outcomes)} runs failed, the first is {failed[0].member.name}: {failed[0].reason}; "
            f"the same command tries them again, mepol resume {failed[0].member.path} that one alone"
        )


def _study(parsed: SweepArguments) -> tuple[str, Study]:
    """Name and content of what was asked for, with the seeds and settings of the command line."""
    path = Path(parsed.study)
    from_file = path.suffix == ".toml" or path.is_file()
    changes = dict(assignment(text) for texts in parsed.set for text in texts)
    name = path.stem if from_file else file_name(parsed.study)
    if from_file:
        study = read_study(path, changes)
    elif parsed.study in PRESETS:
        study = study_of({"preset": parsed.study, "seeds": 8}, changes)
    else:  # typed, not read from a file: the module that it may name is imported
        config = starting_config(parsed.study, explorer=str(changes.get("explorer", "mepol")))
        study = Study({name: with_settings(config, changes)}, seeds_of(8))
    if parsed.seeds is not None:
        study = replace(study, seeds=seeds_of(parsed.seeds))
    return name, study


def _with_progress(members: Sequence[Member], engine: Engine, jobs: int) -> list[Outcome]:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    said: dict[str, str] = {}
    with Progress(*columns, console=stdout, disable=not stdout.is_terminal) as bar:
        tasks: dict[str, TaskID] = {}

        def report(outcomes: Sequence[Outcome]) -> None:
            for o in outcomes:
                if o.member.name not in tasks:
                    tasks[o.member.name] = bar.add_task(o.member.name, total=o.length)
                bar.update(tasks[o.member.name], completed=o.epoch, description=f"{o.member.name} {o.state}")
                if o.state != said.get(o.member.name, "waiting"):
                    said[o.member.name] = o.state
                    (stderr if o.state == "failed" else bar.console).print(_line(o))

        return run_members(members, engine, jobs, report)


def _line(outcome: Outcome) -> str:
    text = f"{outcome.member.name}: {outcome.state}"
    if outcome.state == "failed":
        return f"{text} at epoch {outcome.epoch}: {outcome.reason} (log {log_path(outcome.member)})"
    return f"{text}, epoch {outcome.epoch}/{outcome.length}"


def _groups(outcomes: Sequence[Outcome]) -> list[Group]:
    """Finished members by variant, under the study's own names."""
    found: dict[str, list[RunDirectory[Any, Any]]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.member.variant, []).append(RunDirectory.open(outcome.member.path))
    return [Group(name, tuple(runs)) for name, runs in found.items()]

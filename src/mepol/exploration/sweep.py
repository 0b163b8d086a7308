"""Seeds and variants of one study, each a run directory of its own, worked off by parallel processes.

A study is a TOML file of plain values; nothing in it is executed:

    preset = "mountain-car"        # or env = "Pendulum-v1"
    seeds = 8                      # or a list, [3, 4, 5]
    [settings]                     # by flat name, for all
    trajectories = 100
    [[variant]]
    name = "k-4"
    k = 4
    [[variant]]
    name = "tuned"
    preset = "mountain-car-tuned"

Each member is started by making its run directory and then resuming it, in a process of its own: whatever stops a
member or the sweep, the same command goes on from the last checkpoints, and `mepol resume` retries one alone.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mepol.errors import ConfigError, RunError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.explorers import is_finished
from mepol.exploration.presets import preset
from mepol.runs.directory import Run
from mepol.runs.files import read_text, write_text
from mepol.runs.groups import MEASURES, last_measured
from mepol.runs.machine import MACHINE_SETTINGS
from mepol.settings import flat_settings, with_settings

MAX_STUDY = 1 << 20  # bytes of a study file


@dataclass(frozen=True)
class Member:
    """One run of a study."""

    variant: str
    config: ExploreConfig
    path: Path

    @property
    def name(self) -> str:
        """`variant-seed-S`, its directory."""
        return self.path.name


@dataclass(frozen=True)
class Outcome:
    """How a member stands: `waiting`, `running`, `done` or `failed`, and why."""

    member: Member
    state: str
    epoch: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Study:
    """Variants by name, and the seeds that each runs with."""

    variants: dict[str, ExploreConfig]
    seeds: tuple[int, ...]

    def members(self, out: Path, threads: int) -> list[Member]:
        """Every variant with every seed, in that order, as directories below `out`.

        threads: of each one, where the study does not say.
        """
        return [
            Member(
                name,
                with_settings(config, {"seed": seed, "threads": config.machine.threads or threads}),
                out / f"{name}-seed-{seed}",
            )
            for name, config in self.variants.items()
            for seed in self.seeds
        ]


# --- Reading a study ----------------------------------------------------------------------------------------------


def read_study(path: Path, changes: dict[str, Any] | None = None) -> Study:
    """The study in a TOML file; anything unknown or impossible is a ConfigError that names the file."""
    try:
        data = tomllib.loads(read_text(path, MAX_STUDY))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as fault:
        raise ConfigError(f"cannot read the study {path}: {fault}") from fault
    try:
        return study_of(data, changes)
    except ConfigError as fault:
        raise ConfigError(f"{path}: {fault}") from fault


def study_of(data: dict[str, Any], changes: dict[str, Any] | None = None) -> Study:
    """The study that plain values describe; `changes` hold for all variants, over what those say themselves."""
    if unknown := sorted(set(data) - {"preset", "env", "seeds", "settings", "variant"}):
        raise ConfigError(f"a study has no entry {unknown[0]!r}; it has preset, env, seeds, settings and variant")
    common = data.get("settings", {})
    variants = data.get("variant", [{"name": str(data.get("preset") or data.get("env") or "run").replace("/", "-")}])
    if not isinstance(common, dict) or not isinstance(variants, list) or not all(isinstance(v, dict) for v in variants):
        raise ConfigError("settings must be a table, and each variant a [[variant]] table")
    configs: dict[str, ExploreConfig] = {}
    for variant in variants:
        own = dict(variant)
        name = own.pop("name", None)
        if not isinstance(name, str) or not name or not set(name) <= _NAME or name.startswith((".", "-")):
            raise ConfigError(f"a variant needs a name of letters, digits, '.', '_' and '-', not {name!r}")
        if name in configs:
            raise ConfigError(f"two variants are called {name!r}")
        chosen = own.pop("preset", data.get("preset"))
        settings = {**common, **own, **(changes or {})}
        try:
            configs[name] = _config(chosen, data.get("env"), settings)
        except ConfigError as fault:
            raise ConfigError(f"variant {name!r}: {fault}") from fault
    if not configs:
        raise ConfigError("a study needs at least one variant")
    return Study(configs, seeds_of(data.get("seeds", 1)))


_NAME = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def _config(name: Any, env: Any, settings: dict[str, Any]) -> ExploreConfig:
    if isinstance(name, str):
        return preset(name).config_for(settings.get("explorer", "mepol"), settings)
    if isinstance(env, str) and name is None:
        return with_settings(ExploreConfig(env=env), settings)
    raise ConfigError('a study needs preset = "..." or env = "..."')


def seeds_of(value: Any) -> tuple[int, ...]:
    """0 .. value-1, or the listed seeds."""
    seeds = list(range(value)) if type(value) is int else value
    if not isinstance(seeds, list) or not seeds or not all(type(s) is int for s in seeds):
        raise ConfigError(f"seeds = {value!r} is not possible: it must be a number above 0, or a list of numbers")
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"seeds = {value!r} name a seed twice")
    return tuple(seeds)


# --- Running it ---------------------------------------------------------------------------------------------------


def run_members(
    members: Sequence[Member], jobs: int, report: Callable[[Sequence[Outcome]], None] = lambda _: None
) -> list[Outcome]:
    """Work off `members`, `jobs` at a time; finished ones are skipped, begun ones resumed. Returns how each ended.

    report: called with all outcomes whenever one may have changed. A member that fails is noted and the others go on.
    When this is interrupted, its processes are asked to stop, and write their checkpoints.
    """
    outcomes = {member.name: _prepare(member) for member in members}
    waiting = [member for member in members if outcomes[member.name].state == "waiting"]
    running: dict[str, tuple[Member, subprocess.Popen[bytes]]] = {}
    report(list(outcomes.values()))
    with _stopping(running):
        while waiting or running:
            while waiting and len(running) < jobs:
                member = waiting.pop(0)
                running[member.name] = (member, _start(member))
            time.sleep(0.2)
            for name, (member, process) in list(running.items()):
                code = process.poll()
                outcomes[name] = _look(member, code)
                if code is not None:
                    del running[name]
            report(list(outcomes.values()))
    return list(outcomes.values())


def _prepare(member: Member) -> Outcome:
    """Make the member's directory, or see that the one that is there is this member's."""
    try:
        if not (member.path / "config.json").exists():
            Run.create(member.path, member.config)
            return Outcome(member, "waiting")
        run = Run.open(member.path)
        there, wanted = flat_settings(run.config), flat_settings(member.config)
        if other := [name for name in wanted if name not in MACHINE_SETTINGS and there.get(name) != wanted[name]]:
            raise RunError(
                f"it holds a run with {other[0]} = {there.get(other[0])}, and the study has {wanted[other[0]]}; "
                "choose another --out"
            )
        if is_finished(run):
            return Outcome(member, "done", run.config.length)
    except (RunError, ConfigError) as fault:
        return Outcome(member, "failed", 0, str(fault))
    return Outcome(member, "waiting")


def log_path(member: Member) -> Path:
    """Where a member's process prints."""
    return member.path.parent / "logs" / f"{member.name}.log"


def _start(member: Member) -> subprocess.Popen[bytes]:
    """A process that resumes the member; in a group of its own, so that Ctrl-C reaches it through us alone."""
    path = log_path(member)
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", "import sys; from mepol.cli import main; sys.exit(main())", "resume"]
    threads = {name: str(member.config.machine.threads or 1) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    with path.open("ab") as log:
        return subprocess.Popen(
            [*command, str(member.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **threads},
            start_new_session=True,
        )


def _look(member: Member, code: int | None) -> Outcome:
    """How a member stands, from its directory and its process's exit code (None: still running)."""
    try:
        run = Run.open(member.path)
        rows = run.rows()
        epoch = rows[-1].epoch if rows else 0
        finished = is_finished(run)
    except (RunError, ConfigError) as fault:  # a line half written looks broken; only at the end is it
        if code is None:
            return Outcome(member, "running")
        return Outcome(member, "failed", 0, str(fault))
    if code is None:
        return Outcome(member, "running", epoch)
    if code == 0 and finished:
        return Outcome(member, "done", epoch)
    return Outcome(member, "failed", epoch, _last_line(log_path(member)) or f"exit code {code}")


def _last_line(path: Path) -> str:
    with suppress(OSError):
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            lines = file.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    return ""


@contextmanager
def _stopping(running: dict[str, tuple[Member, subprocess.Popen[bytes]]]) -> Iterator[None]:
    """However the block is left, no process outlives it: each is asked to stop, and killed if it does not."""
    try:
        yield
    finally:
        for _, process in running.values():
            process.terminate()
        for _, process in running.values():
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# --- The summary --------------------------------------------------------------------------------------------------

COLUMNS = ("variant", "seed", "state", "epoch", "samples", *MEASURES, "reason")


def write_summary(outcomes: Sequence[Outcome], out: Path) -> Path:
    """summary.csv: one line a member with its last evaluation."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for outcome in outcomes:
        row = None
        with suppress(RunError, ConfigError):
            row = last_measured(Run.open(outcome.member.path))
        values = dataclasses.asdict(row) if row is not None else {}
        measured = [values.get(name) for name in ("samples", *MEASURES)]
        shown = ["" if v is None else v for v in measured]
        seed = outcome.member.config.seed
        writer.writerow([outcome.member.variant, seed, outcome.state, outcome.epoch, *shown, outcome.reason])
    path = out / "summary.csv"
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_text(path, buffer.getvalue())
    except OSError as fault:
        raise RunError(f"cannot write {path}: {fault}") from fault
    return path

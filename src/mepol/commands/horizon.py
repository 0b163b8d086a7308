"""`mepol horizon RUN...`: h-step and average entropy of trained policies over the testing horizon h."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from mepol.commands.terminal import at_least, parse, stdout
from mepol.envs.make import closing
from mepol.errors import RunError
from mepol.evaluation import HorizonRow, assess, mean_interval
from mepol.exploration.drive import Stream, stream
from mepol.exploration.environment import domain_of, env_of, protocol_of
from mepol.exploration.explorers import load_actor
from mepol.figures import draw_horizons
from mepol.runs.directory import Run
from mepol.runs.files import write_text
from mepol.runs.groups import Band, group_runs
from mepol.settings import with_settings


@dataclass(frozen=True)
class HorizonArguments:
    """Measure policies over testing horizons h on fresh trajectories; seeds of one configuration share a band."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories."""
    until: int = 2000
    """Longest testing horizon, steps."""
    points: int = 20
    """Testing horizons, evenly spaced up to it."""
    trajectories: int = 500
    """Fresh trajectories a run: H(d_h) rests on one state of each."""
    k: int | None = 4
    """Neighbours of both estimates, well below the trajectories."""
    eps: float | None = None
    """Volume added to every neighbour ball, for domains whose walls stop several agents in one place (GridWorld: 1e-4);
    by default the run's own."""
    seed: int = 0
    """Of the fresh trajectories."""
    out: Path = Path("horizon")
    """Directory for horizon.csv and horizon.png."""


def command(arguments: list[str]) -> None:
    """Measure, then write the CSV and the figure drawn from it."""
    parsed = parse(HorizonArguments, arguments, "mepol horizon")
    for name in ("until", "points", "trajectories"):
        at_least(name, getattr(parsed, name), 1)
    at_least("runs", len(parsed.runs), 1)
    at_least("seed", parsed.seed, 0)
    horizons = tuple(sorted({max(1, round(h)) for h in np.linspace(0, parsed.until, parsed.points + 1)[1:]}))
    groups = group_runs([Run.open(path) for path in parsed.runs])
    curves: dict[str, list[tuple[Run, tuple[HorizonRow, ...]]]] = {}
    for group in groups:
        for run in group.runs:
            config = run.config if parsed.eps is None else with_settings(run.config, {"eps": parsed.eps})
            protocol = protocol_of(config, parsed.trajectories, k=parsed.k, horizons=horizons)
            with closing(env_of(config, parsed.trajectories), config.env_time_limit) as env:
                seed = stream(parsed.seed, Stream.FRESH)
                found = assess(load_actor(run), env, domain_of(env, config), protocol, seed=seed).horizons
            curves.setdefault(group.name, []).append((run, found))
            stdout.print(f"{run.path}: H(d_h) {found[-1].step_entropy:.3f}, average {found[-1].average_entropy:.3f}")
    step = {name: _band([rows for _, rows in c], "step_entropy") for name, c in curves.items()}
    average = {name: _band([rows for _, rows in c], "average_entropy") for name, c in curves.items()}
    try:
        parsed.out.mkdir(parents=True, exist_ok=True)
        write_text(parsed.out / "horizon.csv", _csv(curves))
    except OSError as fault:
        raise RunError(f"cannot write {parsed.out}: {fault}") from fault
    title = ", ".join(sorted({run.config.env for group in groups for run in group.runs}))
    stdout.print(f"  {parsed.out / 'horizon.csv'}")
    stdout.print(f"  {draw_horizons(step, average, parsed.out / 'horizon.png', title=title)}")


def _band(curves: Sequence[Sequence[HorizonRow]], measure: str) -> Band:
    """(seeds) curves on the same horizons -> their mean with its 95 % t interval."""
    intervals = [mean_interval([getattr(row, measure) for row in rows]) for rows in zip(*curves, strict=True)]
    return Band(
        np.array([row.h for row in curves[0]], dtype=np.float64),
        np.array([i.centre for i in intervals]),
        np.array([i.centre if i.low is None else i.low for i in intervals]),
        np.array([i.centre if i.high is None else i.high for i in intervals]),
        len(curves),
    )


def _csv(curves: dict[str, list[tuple[Run, tuple[HorizonRow, ...]]]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(
        ("runs", "seed", "T", "h", "step_entropy", "step_particles", "average_entropy", "average_particles")
    )
    for name, members in curves.items():
        for run, rows in members:
            for r in rows:
                head = (name, run.config.seed, run.config.horizon, r.h)
                writer.writerow((*head, r.step_entropy, r.step_particles, r.average_entropy, r.average_particles))
    return buffer.getvalue()

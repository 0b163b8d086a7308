"""`mepol resume RUN`: go on with a run of either phase that was stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import tyro

from mepol.commands.sampling import SamplingArguments
from mepol.commands.terminal import SomeFloat, SomeInt, parse, resumable
from mepol.commands.watch import WatchArguments
from mepol.console.progress import telling
from mepol.console.summary import print_summary
from mepol.errors import ConfigError
from mepol.runs.callbacks import StopAt
from mepol.runs.directory import RunDirectory


@dataclass(frozen=True)
class ResumeArguments:
    """Continue a run from its last checkpoint; unless --k or --eps is given, it then equals a run never stopped."""

    run: tyro.conf.Positional[Path]
    """Run directory, of exploration or of fine-tuning."""
    epochs: SomeInt = None
    """New length of an exploration, in epochs; by default the one it was started with."""
    iterations: SomeInt = None
    """New length of a fine-tuning, in iterations; by default the one it was started with."""
    k: SomeInt = None
    """Other neighbours of the entropy estimate from here on, for an exploration that coinciding particles ended; the
    run notes it in changes.csv, and equals no other any more."""
    eps: SomeFloat = None
    """Another volume added to every neighbour ball from here on; as --k."""
    watch: WatchArguments = field(default_factory=WatchArguments)
    sampling: SamplingArguments = field(default_factory=SamplingArguments)


def command(arguments: list[str]) -> None:
    """Resume, and show how it goes."""
    parsed = parse(ResumeArguments, arguments, "mepol resume")
    run = RunDirectory.open(parsed.run)
    lengths = {"epoch": parsed.epochs, "iteration": parsed.iterations}
    length = lengths.pop(run.phase.turn)
    if wrong := [turn for turn, value in lengths.items() if value is not None]:
        raise ConfigError(f"{wrong[0]}s are not what {parsed.run} counts: give its length with --{run.phase.turn}s")
    changes = {name: value for name in ("k", "eps") if (value := getattr(parsed, name)) is not None}
    if changes and run.phase.name != "explore":
        raise ConfigError(
            f"{parsed.run} is a fine-tuning, which climbs no entropy: give --k and --eps to mepol evaluate"
        )
    callbacks = parsed.watch.callbacks()
    if wrong := [c.column for c in callbacks if isinstance(c, StopAt) and c.column not in run.phase.metrics.columns]:
        raise ConfigError(f"{parsed.run} is a fine-tuning, which has no {wrong[0]} to stop at")
    given = parsed.sampling.given()
    if given.sampler is not None and run.phase.name != "explore":
        raise ConfigError(f"{parsed.run} is a fine-tuning, which draws its own episodes: leave out --sampler")
    total = run.phase.length(run.config) if length is None else length
    with resumable(parsed.run, f"mepol resume {parsed.run}"), telling(run.phase.turn, total) as report:
        options = {**({"changes": changes} if changes else {}), **({"given": given} if given.sampler else {})}
        run = run.phase.resume(parsed.run, length=length, callbacks=callbacks, report=report, **options)
    print_summary(run)

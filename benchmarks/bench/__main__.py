"""`make bench`: what exploration costs, in seconds beside their floors, against its sizes, and in memory."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
import tyro
from rich.table import Table

from bench import (
    CASES,
    DOMAINS,
    ENTROPY_CASES,
    PARTS,
    SWEEPS,
    Growth,
    Peak,
    Timing,
    bench_domain,
    bench_entropy,
    bench_growth,
    bench_memory,
    bench_worlds,
    peak_memory,
)
from bench.options import BOUND, OPTIONS, bench_option
from bench.options import DOMAINS as OPTION_DOMAINS
from bench.picture import draw_growth
from mepol.commands.terminal import at_least, parse
from mepol.console.screen import stderr, stdout
from mepol.errors import ConfigError, MepolError, RunError
from mepol.exploration.presets import preset
from mepol.runs.files import output_folder

TIMED = {"epoch": PARTS, "sampling": ("sampling",), "knn": ("neighbours",), "all": PARTS}


@dataclass(frozen=True)
class BenchArguments:
    """What an epoch costs: seconds at the paper's settings beside floors of the same run, growth, and memory."""

    what: tyro.conf.Positional[
        Literal["epoch", "sampling", "knn", "worlds", "growth", "memory", "finetune", "options", "all"]
    ] = "epoch"
    """All parts of an epoch or one of them; an epoch of several environments beside a plain one; how they grow with
    their sizes; the peak of memory; what the entropy reward adds to an iteration of fine-tuning; what options add to
    an epoch; or all of that."""
    domains: tuple[str, ...] = DOMAINS
    """Presets to time."""
    repetitions: int = 5
    """Of each part and floor; medians are shown."""
    sweeps: tuple[str, ...] = tuple(SWEEPS)
    """Sizes to grow."""
    seconds: float = 20.0
    """Of one measurement of growth: a point that is predicted to take longer is skipped, and says so."""
    out: Path | None = None
    """Directory for a CSV of each kind that is measured (epoch.csv, worlds.csv, ...) and growth.png; without it nothing
    is written."""
    json: bool = False
    """Print JSON instead of tables."""


def main(arguments: list[str]) -> int:
    """Run the benchmark; returns the exit code: 0 done, 1 failed, 2 wrong usage or values."""
    try:
        measure(arguments)
    except MepolError as fault:
        stderr.print(f"bench: {fault}")
        return 2 if isinstance(fault, ConfigError) else 1
    return 0


def measure(arguments: list[str]) -> None:
    """Measure, print, and with `--out` write; fails at the end, in one sentence, when a bound on memory is broken."""
    parsed = parse(BenchArguments, arguments, "python -m bench")
    at_least("repetitions", parsed.repetitions, 1)
    if not parsed.seconds > 0:
        raise ConfigError(f"seconds = {parsed.seconds} is not possible: it must be above 0")
    for name in parsed.domains:
        preset(name)
    if unknown := [name for name in parsed.sweeps if name not in SWEEPS]:
        raise ConfigError(f"no sweep {unknown[0]!r}; there are {', '.join(map(repr, SWEEPS))}")
    found = _measure(parsed)
    paths = [] if parsed.out is None else _write(found, parsed.out)
    if parsed.json:
        stdout.print(json.dumps(found.plain()))
    else:
        _print(found)
        for path in paths:
            stdout.print(f"  {path}")
    if broken := [peak for peak in found.peaks if not peak.holds]:
        peak = broken[0]
        raise RunError(f"the case {peak.case!r} took {peak.bytes / 1e9:.2f} GB, and may take {peak.bound / 1e9:g}")


@dataclass(frozen=True)
class Found:
    """All that was measured; what was not asked for is empty."""

    timings: tuple[Timing, ...]
    growths: tuple[Growth, ...]
    peaks: tuple[Peak, ...]
    added: Mapping[str, tuple[Timing, ...]] = field(default_factory=dict)
    """Kind (options, worlds, finetune) -> what each case costs, beside the plain one as its floor."""

    def plain(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {
            "threads": torch.get_num_threads(),
            "peak_bytes": peak_memory(),
            "timings": [{**dataclasses.asdict(t), "ratio": t.ratio} for t in self.timings],
            "growth": [
                {**dataclasses.asdict(g), "exponents": g.exponents, "bottleneck": g.bottleneck} for g in self.growths
            ],
            "memory": [{**dataclasses.asdict(p), "holds": p.holds} for p in self.peaks],
            "added": {
                kind: [{**dataclasses.asdict(t), "ratio": t.ratio} for t in cases] for kind, cases in self.added.items()
            },
        }


def _measure(parsed: BenchArguments) -> Found:
    everything = parsed.what == "all"
    timings: list[Timing] = []
    with stderr.status("measuring") as status:
        for name in parsed.domains if parsed.what in TIMED else ():
            status.update(f"timing {name}")
            timings += bench_domain(name, TIMED[parsed.what], repetitions=parsed.repetitions)
        growths = [
            bench_growth(
                name, budget=parsed.seconds, report=lambda p: status.update(f"{p.sweep} = {p.size}: {p.part} done")
            )
            for name in (parsed.sweeps if everything or parsed.what == "growth" else ())
        ]
        peaks = []
        for case in CASES if everything or parsed.what == "memory" else ():
            status.update(f"memory of {case}")
            peaks.append(bench_memory(case))
        added = {
            kind: tuple(cases(parsed.repetitions, status.update))
            for kind, cases in ADDED.items()
            if everything or parsed.what == kind
        }
    return Found(tuple(timings), tuple(growths), tuple(peaks), added)


def _options(repetitions: int, report: Callable[[str], None]) -> Iterator[Timing]:
    for name in OPTION_DOMAINS:
        for option in OPTIONS:
            report(f"{option} of {name}")
            yield bench_option(name, option, repetitions=repetitions)


def _worlds(repetitions: int, report: Callable[[str], None]) -> Iterator[Timing]:
    report("several environments")
    yield bench_worlds(repetitions=repetitions)


def _finetune(repetitions: int, report: Callable[[str], None]) -> Iterator[Timing]:
    for task, kind in ENTROPY_CASES:
        report(f"{task} with {kind} entropy")
        yield bench_entropy(task, kind, repetitions=repetitions)


ADDED = {"options": _options, "worlds": _worlds, "finetune": _finetune}
"""What is measured beside the same without it."""


# --- Tables -------------------------------------------------------------------------------------------------------


def _print(found: Found) -> None:
    if found.timings:
        stdout.print(_epoch_table(found.timings), soft_wrap=False)
    for growth in found.growths:
        stdout.print(_growth_table(growth), soft_wrap=False)
        stdout.print(_bottleneck_text(growth))
    if found.peaks:
        table = Table("case", "particles", "peak (GB)", "bound (GB)")
        for p in found.peaks:
            table.add_row(p.case, str(p.particles), f"{p.bytes / 1e9:.2f}", f"{p.bound / 1e9:g}")
        stdout.print(table, soft_wrap=False)
    for cases in found.added.values():
        table = Table("domain", "what", "with it (s)", "plain (s)", "ratio", f"at most {BOUND}")
        for t in cases:
            within = "yes" if t.ratio <= BOUND else "no"
            table.add_row(t.domain, t.part, f"{t.seconds:.3f}", f"{t.floor:.3f}", f"{t.ratio:.2f}", within)
        stdout.print(table, soft_wrap=False)
    stdout.print(f"{torch.get_num_threads()} threads; peak resident memory {peak_memory() / 1e9:.2f} GB")


def _epoch_table(timings: Sequence[Timing]) -> Table:
    table = Table("domain", "part", "seconds", "floor", "ratio")
    for name in dict.fromkeys(t.domain for t in timings):
        mine = [t for t in timings if t.domain == name]
        for t in mine:
            low, high = t.spread
            table.add_row(name, t.part, f"{t.seconds:.3f} ({low:.3f}-{high:.3f})", f"{t.floor:.3f}", f"{t.ratio:.2f}")
        total, floor = sum(t.seconds for t in mine), sum(t.floor for t in mine)
        if len(mine) > 1:
            table.add_row(name, "epoch", f"{total:.3f}", f"{floor:.3f}", f"{total / floor:.2f}", end_section=True)
    return table


def _growth_table(growth: Growth) -> Table:
    table = Table(SWEEPS[growth.sweep].label, *PARTS)
    cells = {
        (p.size, p.part): f"{p.seconds:.4f}" if p.seconds is not None else f"skipped (about {p.predicted:.0f} s)"
        for p in growth.points
    }
    for size in dict.fromkeys(p.size for p in growth.points):
        table.add_row(f"{size:,}", *(cells.get((size, part), "-") for part in PARTS))
    exponents = growth.exponents
    table.add_section()
    table.add_row("exponent", *(f"{exponents[part]:.2f}" if part in exponents else "-" for part in PARTS))
    return table


def _bottleneck_text(growth: Growth) -> str:
    if growth.bottleneck is None:
        return "the search costs less than the optimiser at the largest size that was measured"
    return f"the search costs more than the optimiser from {growth.bottleneck:,} on"


# --- Files --------------------------------------------------------------------------------------------------------


def _write(found: Found, out: Path) -> list[Path]:
    """A CSV of each kind that was measured, and the figure of growth."""
    tables: dict[str, list[tuple[Any, ...]]] = {
        "epoch.csv": [
            ("domain", "part", "seconds", "low", "high", "floor", "floor_low", "floor_high", "ratio"),
            *((t.domain, t.part, t.seconds, *t.spread, t.floor, *t.floor_spread, t.ratio) for t in found.timings),
        ],
        **{
            f"{kind}.csv": [
                ("domain", "what", "seconds", "low", "high", "plain", "plain_low", "plain_high", "ratio"),
                *((t.domain, t.part, t.seconds, *t.spread, t.floor, *t.floor_spread, t.ratio) for t in cases),
            ]
            for kind, cases in found.added.items()
        },
        "growth.csv": [
            ("sweep", "size", "part", "seconds", "predicted", "exponent"),
            *(
                (p.sweep, p.size, p.part, p.seconds, p.predicted, g.exponents.get(p.part))
                for g in found.growths
                for p in g.points
            ),
        ],
        "memory.csv": [
            ("case", "particles", "bytes", "bound"),
            *((p.case, p.particles, p.bytes, p.bound) for p in found.peaks),
        ],
    }
    door = output_folder(out)
    paths = [door.write_text(name, _csv(rows)) for name, rows in tables.items() if len(rows) > 1]
    if found.growths:
        panels = {
            SWEEPS[g.sweep].label: {f"{part}, exponent {e:.2f}": g.curve(part) for part, e in g.exponents.items()}
            for g in found.growths
        }
        paths.append(door.write("growth.png", draw_growth(panels)))
    return paths


def _csv(rows: Sequence[Sequence[Any]]) -> str:
    """Rows as text; what was not measured is empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for row in rows:
        writer.writerow("" if v is None else f"{v:.5g}" if isinstance(v, float) else v for v in row)
    return buffer.getvalue()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

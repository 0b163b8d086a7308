"""`mepol reproduce`: the paper's figures and tables by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import tyro
from rich.table import Table

from mepol.cluster.engines import ENGINES
from mepol.commands.terminal import SomeInt, SomePath, at_least, parse, resumable
from mepol.console.screen import counting, stderr, stdout
from mepol.errors import RunError
from mepol.exploration.sweep import Outcome
from mepol.reproduce.catalogue import Figure, chosen, needed
from mepol.reproduce.draw import draw
from mepol.reproduce.expected import REFERENCE, benchmark, stand
from mepol.reproduce.page import write_page
from mepol.reproduce.studies import SCALES, Scale, Study, find_study
from mepol.reproduce.work import Asked, run_missing
from mepol.runs.files import require_place


@dataclass(frozen=True)
class ReproduceArguments:
    """Make figures and tables of the paper: run what is missing, resume what was stopped, draw what is there."""

    figures: tyro.conf.Positional[tuple[str, ...]] = ()
    """Names as --list shows them, or `all`."""
    scale: Literal["smoke", "quick", "paper"] = "quick"
    """smoke: tiny, to see that it works; quick: few seeds and a part of the samples, with the settings of --fast;
    paper: the paper's settings, seeds and length."""
    seeds: SomeInt = None
    """Seeds 0 .. N-1 of each run; by default the scale's."""
    jobs: int = 1
    """Processes at a time, one thread each."""
    engine: Literal["local", "ray"] = "local"
    """Where explorations are worked off: processes of this machine, or tasks of a Ray cluster (docs/guide/scale.md)."""
    address: str | None = None
    """With --engine ray: HOST:PORT of the cluster, or `auto`; by default one is started on this machine."""
    out: Path = Path("reproduced")
    """Directory of everything: OUT/SCALE/FIGURE, and the runs in OUT/SCALE/runs."""
    list: bool = False
    """Show what each needs, what of it is there, and about how long the rest would take here."""
    draw_only: bool = False
    """Run nothing: draw what is there."""
    page: SomePath = None
    """Markdown file whose generated section is written anew from what is in OUT, and from results/recorded.toml in one
    of the folders that it lies in; without names of figures nothing else is done."""


def command(arguments: list[str]) -> None:
    """List, or run and draw; fails at the end, in one sentence, if anything did."""
    parsed = parse(ReproduceArguments, arguments, "mepol reproduce")
    at_least("jobs", parsed.jobs, 1)
    if parsed.seeds is not None:
        at_least("seeds", parsed.seeds, 1)
    scale = Scale(parsed.scale)
    asked = Asked(parsed.out / scale.name / "runs", scale, parsed.seeds)
    if parsed.list or not (parsed.figures or parsed.page):
        _list(chosen(parsed.figures), asked, parsed.jobs)
        return
    if parsed.figures:
        _make(chosen(parsed.figures), asked, parsed)
    if parsed.page is not None:
        stdout.print(f"page {write_page(parsed.page, parsed.out, SCALES[SCALES.index(scale.name) :])}")


def _make(figures: Sequence[Figure], asked: Asked, parsed: ReproduceArguments) -> None:
    require_place(parsed.out)
    faults: list[str] = []
    if not parsed.draw_only:
        again = f"mepol reproduce {' '.join(parsed.figures)} --scale {asked.scale.name}, with the same --out,"
        with resumable(parsed.out, again, mark=""):
            faults = _run(needed(figures), asked, parsed)
    for figure in figures:
        try:
            paths = draw(figure, asked.root, asked.root.parent / figure.name, asked.scale)
            stdout.print(f"{figure.name}: {', '.join(path.name for path in paths)} in {paths[0].parent}")
        except RunError as fault:
            faults.append(str(fault))
            stderr.print(f"{figure.name}: {fault}")
    if faults:
        raise RunError(f"{len(faults)} things failed, the first is {faults[0]}; the same command tries them again")


def _run(needs: dict[str, set[str]], asked: Asked, parsed: ReproduceArguments) -> list[str]:
    """Everything that is missing, under one bar over all runs."""
    ended: dict[str, str] = {}
    total = sum(_number(find_study(name), variants, asked) for name, variants in needs.items())
    with counting("run", total) as tell:

        def report(study: Study, outcomes: Sequence[Outcome]) -> None:
            for o in outcomes:
                name = f"{study.name}/{o.member.name}"
                if o.state in ("done", "failed") and name not in ended:
                    ended[name] = o.state
                    tell(len(ended), total, f"{name} {o.state}{': ' if o.reason else ''}{o.reason}", False)

        engines = partial(ENGINES[parsed.engine], parsed.address, "pull")
        return run_missing(needs, asked, parsed.jobs, report=report, engines=engines)


def _number(study: Study, variants: set[str], asked: Asked) -> int:
    return len(variants) * asked.scale.seeds(study, asked.seeds) * len(study.data.get("tasks", ("",)))


def _list(figures: Sequence[Figure], asked: Asked, jobs: int) -> None:
    speed = REFERENCE / benchmark()
    table = Table("figure", "what it shows", "runs there", "samples there", f"the rest, {jobs} at a time")
    table.columns[0].no_wrap = True
    for figure in figures:
        found = stand(needed([figure]), asked, jobs, speed)
        runs, samples = f"{found.done} of {found.runs}", f"{found.samples_there:.3g} of {found.samples:.3g}"
        table.add_row(figure.name, figure.data["title"], runs, samples, _duration(found.seconds))
    stdout.print(table, soft_wrap=False)
    whole = stand(needed(figures), asked, jobs, speed)
    stdout.print(
        f"scale {asked.scale.name} ({asked.scale.data['about']}): {whole.runs - whole.done} runs are missing in all, "
        f"about {_duration(whole.seconds)}; figures share runs. This machine has {speed:.2f} of the reference's speed."
    )


def _duration(seconds: float) -> str:
    """A rough time in the largest unit of which there are two or more."""
    for unit, size in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds else "nothing"

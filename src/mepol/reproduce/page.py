"""The table of docs/results/paper.md, from what is on disk: every figure, our value, the paper's, seeds and share."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mepol.errors import RunError
from mepol.evaluation.statistics import mean_interval
from mepol.reproduce.catalogue import Figure, figures
from mepol.reproduce.draw import value_words
from mepol.reproduce.found import SUMMARY, SummaryRow, percent
from mepol.reproduce.studies import PAPER, Study
from mepol.runs.files import read_text, write_bytes
from mepol.runs.text import plain

BEGIN, END = "<!-- mepol reproduce --page: begin -->", "<!-- mepol reproduce --page: end -->"
MAX_TABLE = 1 << 24  # bytes of a table or page
RECORDED = "results/recorded.toml"
"""Which tables of a repository hold measurements that were made before there was this command."""


def write_page(path: Path, out: Path, scales: Sequence[str]) -> Path:
    """Replace the section between the two marks of the Markdown file `path`; RunError where they are not there.

    Each figure shows the largest of `scales` that is in `out`; a series that was recorded with more seeds, or as many
    and more samples, that.
    """
    try:
        text = read_text(path, MAX_TABLE)
    except (OSError, UnicodeDecodeError) as fault:
        raise RunError(f"cannot read {path}: {fault}") from fault
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise RunError(f"{path} has no place for the table: put the lines {BEGIN} and {END} where it belongs")
    recorded = next((found for above in path.resolve().parents if (found := above / RECORDED).is_file()), None)
    rows = {figure.name: _rows(figure, out, scales, recorded) for figure in figures().values()}
    return write_bytes(path, f"{head}{BEGIN}\n{_table(rows)}\n{END}{tail}".encode())


def _rows(figure: Figure, out: Path, scales: Sequence[str], recorded: Path | None) -> list[SummaryRow]:
    """Of each series the line of more seeds, or samples: of the largest scale that is there, or what was recorded."""
    tables = [out / scale / figure.name / SUMMARY.name for scale in reversed(scales)]
    made = next((SUMMARY.read(table) for table in tables if table.is_file()), [])
    found: dict[str, SummaryRow] = {}  # a figure has one measure, which a table may name more closely
    for row in [*made, *(_recorded(figure, recorded) if recorded else ())]:
        own = found.setdefault(row.series, row)
        if (row.seeds, row.samples) > (own.seeds, own.samples):
            found[row.series] = row
    return list(found.values())


def _table(rows: Mapping[str, Sequence[SummaryRow]]) -> str:
    lines = ["| figure | series | measure | the paper | here | seeds | samples, of the paper's | settings | made by |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    for name, found in rows.items():
        lines += [_line(row) for row in found] or [f"| {name} | | | | not run | | | | |"]
    return "\n".join(lines)


def _line(row: SummaryRow) -> str:
    share = "" if row.share is None else f", {percent(row.share)}"
    paper = "" if row.paper is None else f"{row.paper:g}"
    cells = (row.figure, row.series, row.measure.replace("_", " "), paper, value_words(row))
    seeds = f"{row.seeds} of {row.paper_seeds}"
    samples = f"{row.samples:.3g}{share}" if row.samples else ""  # nothing was learnt, or the table does not say
    shown = (*cells, seeds, samples, row.settings, row.scale)
    return "| " + " | ".join(plain(cell).replace("|", "/") for cell in shown) + " |"


# --- Measurements from before this command ----------------------------------------------------------------------------


def _recorded(figure: Figure, path: Path) -> Iterator[SummaryRow]:
    """The lines of the figure that recorded.toml points to: the last row of each seed in a table.

    [[series]]
    figure = "fig-gridworld"
    name = "mepol"                          # as in the study
    file = "gridworld/curves.csv"           # beside recorded.toml
    where = { runs = "mepol-fast" }         # columns and what they must say
    settings = "fast"
    """
    for entry in tomllib.loads(read_text(path, MAX_TABLE)).get("series", ()):
        if entry["figure"] == figure.name:
            found = _last_rows(path.parent / entry["file"], entry)
            if not found:
                raise RunError(f"{path}: {entry['file']} has no row where {entry.get('where', {})}")
            yield _summary(figure, entry, found)


def _last_rows(path: Path, entry: Mapping[str, Any]) -> list[dict[str, str]]:
    """Per seed, the last row that fits and has the measure."""
    where, measure = entry.get("where", {}), entry["measure"]
    last: dict[str, dict[str, str]] = {}
    for row in csv.DictReader(read_text(path, MAX_TABLE).splitlines()):
        if all(row.get(name) == value for name, value in where.items()) and row.get(measure):
            last[row.get("seed", "0")] = row
    return list(last.values())


def _summary(figure: Figure, entry: Mapping[str, Any], rows: Sequence[Mapping[str, str]]) -> SummaryRow:
    interval = mean_interval([float(row[entry["measure"]]) for row in rows])
    study, variant = _study_of(figure, entry["name"])
    samples = min(int(row.get("samples", 0)) for row in rows)
    whole = study.samples(variant, PAPER) / len(study.data.get("tasks", "1"))
    return SummaryRow(
        figure.name,
        entry["name"],
        entry["measure"],
        interval.centre,
        interval.low,
        interval.high,
        len(rows),
        int(study.data["seeds"]),
        samples,
        samples / whole if whole and samples else None,
        entry["settings"],
        "recorded",
        figure.levels.get(entry["name"]),
    )


def _study_of(figure: Figure, series: str) -> tuple[Study, str]:
    """The study and variant of a series, which may have the name of its study or task before its own."""
    for study in figure.studies:
        for variant in study.variants:
            heads = (study.name, *study.data.get("tasks", ()))
            if series == variant or series in {f"{head} {variant}" for head in heads}:
                return study, variant
    raise RunError(f"{figure.name} has no series {series!r}")

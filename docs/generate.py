"""The pages that are made from the library itself: settings, commands, names, errors; and results/ as pages.

Called by conf.py before a build; nothing that it writes is kept in git.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import MISSING
from itertools import groupby
from pathlib import Path

import mepol
from mepol import errors
from mepol.cli import COMMANDS, main
from mepol.commands import explore, finetune
from mepol.exploration.config import ExploreConfig
from mepol.exploration.presets import PRESETS
from mepol.finetuning.config import FinetuneConfig
from mepol.finetuning.presets import task_rows
from mepol.finetuning.tasks import TASKS
from mepol.settings import Described, Row, describe

DOCS = Path(__file__).parent
ROOT = DOCS.parent
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def write(root: Path) -> None:
    """Write every generated page below `root`, which is docs/ in a build."""
    pages = {"settings": settings(), "commands": commands(), "api": api(), "errors": named_errors()}
    (root / "reference").mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        _put(root / "reference" / f"{name}.md", text)
    for page in sorted((ROOT / "results").glob("*/README.md")):
        place = root / "results" / "measured" / page.parent.name
        place.mkdir(parents=True, exist_ok=True)
        for picture in (*page.parent.glob("*.png"), *page.parent.glob("*.gif")):
            shutil.copy(picture, place)
        _put(place / "README.md", page.read_text())


def _put(path: Path, text: str) -> None:
    """Write what is new alone, so that a second build is short."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


# --- Links ------------------------------------------------------------------------------------------------------------


def within(text: str, source: Path) -> str:
    """A page's text with links that stay on the site; what is only in the repository is named instead."""

    def turned(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        if picture or re.match(r"[a-z]+:|#", target):
            return found[0]
        full = Path(os.path.normpath(_stands_for(source).parent / target.partition("#")[0]))
        parts = full.relative_to(ROOT).parts if full.is_relative_to(ROOT) else ()
        if parts[:1] == ("docs",):
            return f"[{words}]({os.path.relpath(full, source.parent)}{''.join(target.partition('#')[1:])})"
        if parts[:1] == ("results",) and (ROOT / "results" / parts[1] / "README.md").exists():
            page = DOCS / "results" / "measured" / parts[1] / "README.md"
            return f"[{words}]({os.path.relpath(page, source.parent)})"
        path = "/".join(parts)
        return words if path in words else f"{words} (`{path}`)"

    return LINK.sub(turned, text)


def _stands_for(page: Path) -> Path:
    """The file in the repository whose text a page has."""
    measured = DOCS / "results" / "measured"
    return ROOT / "results" / page.relative_to(measured) if page.is_relative_to(measured) else page


# --- Pages ------------------------------------------------------------------------------------------------------------


def settings() -> str:
    """Every setting by room, and what each preset sets with its source."""
    parts = ["# Settings", "Each is a flag of the command and, with `_` for `-`, a keyword of the Python function."]
    for title, config, groups in (
        ("mepol explore", ExploreConfig, explore.GROUPS),
        ("mepol finetune", FinetuneConfig, finetune.GROUPS),
    ):
        parts.append(f"## {title}")
        for group, members in groupby(sorted(describe(config), key=lambda row: row.group), key=lambda row: row.group):
            parts += [f"### {title}: {groups.get(group, group)}", _table(_HEAD, map(_cells, members))]
    parts += ["## Presets", "What a preset sets, and where each value comes from (`mepol presets` shows the same)."]
    for name, entry in PRESETS.items():
        own = (row for rows in entry.rivals.values() for row in rows)
        parts += [f"### {name}", f"{entry.summary}.", _sources((*entry.rows, *own))]
    for name in TASKS:
        parts += [f"### finetune {name}", _sources(task_rows(name))]
    return "\n\n".join(parts) + "\n"


_HEAD = ("flag", "type", "default", "range", "meaning")


def _cells(row: Described) -> tuple[str, ...]:
    default = "must be given" if row.default is MISSING else f"`{row.default}`"
    return f"`{row.flag}`", row.type, default, row.allowed, row.text


def _sources(rows: Iterable[Row]) -> str:
    return _table(("setting", "value", "source"), ((f"`{r.setting}`", f"`{r.value}`", r.source) for r in rows))


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def commands() -> str:
    """What each command says of itself."""
    asked = {"explore": ["gridworld", "--help-all"], "finetune": ["grid-goal1", "--help-all"], "help": []}
    parts = ["# Commands", "As `mepol COMMAND --help` prints them."]
    for name in sorted(COMMANDS):
        parts += [f"## mepol {name}", f"```text\n{_printed([name, *asked.get(name, ['--help'])]).rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"


def _printed(arguments: list[str]) -> str:
    shown = io.StringIO()
    with _columns(110), contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        main(arguments)
    return shown.getvalue()


@contextlib.contextmanager
def _columns(number: int) -> Iterator[None]:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(number)
    try:
        yield
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before


def api() -> str:
    """The public names; Sphinx fills in signatures and docstrings."""
    parts = ["# Python", "Everything that `import mepol` gives. Each example is run by the tests."]
    for name in mepol.__all__:
        thing = getattr(mepol, name)
        if isinstance(thing, type):
            directive, options = ("autoexception" if issubclass(thing, Exception) else "autoclass"), "   :members:\n"
        else:
            directive, options = ("autofunction" if callable(thing) else "automodule"), ""
        parts.append(f"## {name}\n\n```{{eval-rst}}\n.. {directive}:: mepol.{name}\n{options}```")
    return "\n\n".join(parts) + "\n"


def as_rst(lines: list[str]) -> list[str]:
    """A docstring's lines as Sphinx reads them: indented blocks are code, and a star is a star."""
    made: list[str] = []
    inside = False
    for before, line in zip(["", *lines], lines, strict=False):
        indented = line.startswith("    ")
        if indented and not inside and not before.strip():
            made += ["::", ""]
        inside = indented or (inside and not line.strip())
        made.append(line if inside else line.replace("*", "\\*"))
    return made


def named_errors() -> str:
    """Every error by name, with its base and what it means."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    rows = [
        (f"`{kind.__name__}`", ", ".join(f"`{base.__name__}`" for base in kind.__bases__), _first(kind))
        for kind in kinds
    ]
    says = (
        "Every failure that a user can meet has a name in `mepol.errors`. All but the warnings are a `MepolError`;\n"
        "the command prints them as one sentence with name, number and remedy, and `--verbose` adds the traceback.\n"
        "It ends with 0 when done, 1 when it failed, 2 for wrong usage or values, 130 when interrupted."
    )
    return f"# Errors\n\n{says}\n\n{_table(('error', 'is a', 'meaning'), rows)}\n"


def _first(kind: type) -> str:
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].split())

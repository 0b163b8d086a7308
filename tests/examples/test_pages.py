"""Markdown that can be read in a terminal, links that lead somewhere, and a reference that leaves nothing out."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import DOCS, ROOT

import mepol
from mepol import errors
from mepol.cli import COMMANDS
from mepol.exploration.config import ExploreConfig
from mepol.exploration.rows import MetricsRow, StepRow
from mepol.exploration.worlds.measures import WorldRow
from mepol.finetuning.config import FinetuneConfig
from mepol.finetuning.rows import FinetuneRow
from mepol.settings import describe

WIDTH = 120


def markdown() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        **{"cwd": ROOT, "capture_output": True, "text": True, "check": True},
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


PAGES = [page for page in markdown() if "zoo/data" not in str(page)]  # cards are written by `mepol zoo export`


def prose(page: Path) -> str:
    """A page without its blocks of code, whose brackets are no links."""
    return re.sub(r"^```.*?^```$|^ {4}.*?$|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_within_the_columns(page: Path) -> None:
    """Rows of tables cannot be broken."""
    lines = enumerate(page.read_text().splitlines(), 1)
    assert [number for number, line in lines if len(line) > WIDTH and not line.lstrip().startswith("|")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_that_are_there(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s#]+)[^)]*\)", prose(page))
    inside = [target for target in targets if not re.match(r"[a-z]+:", target)]
    made = ("settings.md", "commands.md", "api.md", "errors.md")  # by docs/generate.py
    assert [t for t in inside if not (page.parent / t).exists() and Path(t).name not in made] == []


def test_the_reference_has_everything(tmp_path: Path) -> None:
    sys.path.insert(0, str(DOCS))
    try:
        import generate
    finally:
        sys.path.remove(str(DOCS))
    generate.write(tmp_path)
    settings = (tmp_path / "reference" / "settings.md").read_text()
    every = [*describe(ExploreConfig), *describe(FinetuneConfig)]
    assert [row.flag for row in every if f"`{row.flag}`" not in settings] == []
    commands = (tmp_path / "reference" / "commands.md").read_text()
    assert [name for name in COMMANDS if f"\n## mepol {name}\n" not in commands] == []
    api = (tmp_path / "reference" / "api.md").read_text()
    assert [name for name in mepol.__all__ if f":: mepol.{name}\n" not in api] == []
    named = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
    assert [name for name in named if f"`{name}`" not in (tmp_path / "reference" / "errors.md").read_text()] == []


def test_every_column_is_explained() -> None:
    pages = {"reference/metrics.md": (MetricsRow, StepRow, WorldRow), "method/finetune.md": (FinetuneRow,)}
    for page, rows in pages.items():
        text = (DOCS / page).read_text()
        columns = [field.name for row in rows for field in dataclasses.fields(row)]
        assert [name for name in columns if f"`{name}`" not in text] == []


def test_runtime_messages_name_pages_that_are_there() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"docs/[a-z/-]+\.md", sources))
    assert len(named) > 5
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Ten seconds: only a build knows of dead anchors, pages that no other leads to, and docstrings it cannot read."""
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(tmp_path)]
    path = os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)])
    done = subprocess.run(build, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "guide" / "first-run.html").is_file()

"""Every block of the guide and of the README is run, and so is the notebook."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest
from pages import DOCS, ROOT, blocks, run_page

import mepol
from mepol.cli import main

OWN_TESTS = {"extending.md", "elsewhere.md"}
"""Pages whose tests look at what the blocks leave behind as well."""
PAGES = [ROOT / "README.md", *sorted(page for page in (DOCS / "guide").glob("*.md") if page.name not in OWN_TESTS)]
NOTEBOOK = DOCS / "guide" / "first-exploration.ipynb"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_shows_works(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some take several seconds: they explore, resume and fine-tune as a reader would, at small sizes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def type_in(arguments: list[str]) -> str:
        capsys.readouterr()
        code = main(arguments)
        shown = capsys.readouterr()
        assert code == 0, f"{page.name}: mepol {' '.join(arguments)} said {shown.err}"
        return shown.out + shown.err

    run_page(page.read_text(), page.name, type_in)


def test_what_is_not_run_says_why() -> None:
    left_out = [block for page in PAGES for block in blocks(page.read_text()) if block.mark == "not run"]
    assert all(len(block.value) > 5 for block in left_out)
    every = [block for page in PAGES for block in blocks(page.read_text())]
    assert len(left_out) < len(every) / 4


def test_the_readme_begins_with_eight_lines_of_python() -> None:
    (first, *_) = [block for block in blocks((ROOT / "README.md").read_text()) if block.language == "python"]
    assert len([line for line in first.text.splitlines() if line.strip()]) <= 8
    assert not first.mark


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of its own loads torch and Stable-Baselines3, which takes most of the time."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(mepol.__file__).parents[1]), *sys.path]))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "kept without its output"
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    assert any("image/png" in out.get("data", {}) for out in shown)
    last = "".join(out.get("text", "") for out in notebook.cells[-1].get("outputs", ()))
    assert re.search(r"success rate", last)

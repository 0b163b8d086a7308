"""How `make docs` builds these pages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import generate

import mepol

project = "mepol"
author = "the mepol developers"
release = mepol.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"mepol {release}"
exclude_patterns = ["_build"]
highlight_language = "text"
myst_heading_anchors = 3
default_role = "literal"  # docstrings put code between single backticks
smartquotes = False  # --fast has two hyphens
autodoc_typehints = "none"
autodoc_member_order = "bysource"


def setup(app: Any) -> None:
    """Generated pages first; links of every page are kept on the site."""
    app.connect("builder-inited", lambda _: generate.write(Path(__file__).parent))
    app.connect("source-read", _read)
    app.connect("autodoc-process-docstring", _docstring)


def _read(app: Any, name: str, source: list[str]) -> None:
    source[0] = generate.within(source[0], Path(app.env.doc2path(name)))


def _docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    lines[:] = generate.as_rst(lines)

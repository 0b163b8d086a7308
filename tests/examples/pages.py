"""Pages of the documentation, run as they stand: one mechanism for every block that a reader may copy.

A page's ```python blocks are run in order, in one set of names. In a ```console block each line after `$ ` is a command
and the others are what it printed: each must stand in what it prints here, digits and spaces aside, since digits differ
between processors. A comment on the line above a block changes that:

    <!-- not run: REASON -->     left out
    <!-- tested with: FLAGS -->  its commands get these flags as well, so that the test is short
    <!-- file: NAME -->          the block is written to that file instead
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"(?:^<!-- ([a-z ]+): (.*?) -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = ("python", "console", "sh")


@dataclass(frozen=True)
class Block:
    """A fenced block, and what the comment above it asks for."""

    language: str
    text: str
    mark: str = ""
    value: str = ""


def blocks(text: str) -> list[Block]:
    """The blocks of a page, or of a part of it, that are there to be copied."""
    found = (Block(language, body, mark, value) for mark, value, language, body in BLOCK.findall(text))
    return [block for block in found if block.language in RUN]


def python(text: str) -> list[str]:
    """The text of its Python blocks."""
    return [block.text for block in blocks(text) if block.language == "python" and not block.mark]


def run_python(texts: list[str], page: str) -> dict[str, Any]:
    """The names that the blocks leave behind."""
    names: dict[str, Any] = {"__name__": "page"}
    for text in texts:
        exec(compile(text, page, "exec"), names)
    return names


def run_page(text: str, page: str, type_in: Callable[[list[str]], str]) -> dict[str, Any]:
    """Run every block of a page in the working directory; `type_in` runs a command and gives what it printed."""
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(text):
        if block.mark == "not run":
            continue
        if block.mark == "file":
            Path(block.value).write_text(block.text)
        elif block.language == "python":
            exec(compile(block.text, page, "exec"), names)
        else:
            run_console(block, page, type_in)
    return names


def run_console(block: Block, page: str, type_in: Callable[[list[str]], str]) -> None:
    """Type in the commands of a block; what stands below each must be printed by it."""
    assert block.mark in ("", "tested with"), f"{page}: {block.mark}?"
    more = shlex.split(block.value) if block.mark else []
    printed: set[str] | None = None
    for line in block.text.splitlines():
        if line.startswith("$ "):
            program, *arguments = shlex.split(line[2:], comments=True)
            assert program == "mepol", f"{page}: cannot run {line}"
            printed = {undigited(shown) for shown in type_in([*arguments, *more]).splitlines()}
        elif line.strip() not in ("", "..."):
            assert printed is not None, f"{page}: {line!r} stands below no command"
            assert undigited(line) in printed, f"{page} shows {line!r}; printed: {sorted(printed)}"


def undigited(line: str) -> str:
    """A line without what may differ between processors: the digits of its numbers, and the widths that follow."""
    return " ".join(re.sub(r"([━─])+", r"\1", re.sub(r"-?\d[\d.,]*", " # ", line)).split())

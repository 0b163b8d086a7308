"""What holds for the source as a whole: few files at the top, short files, and nothing that stands twice."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import mepol

SOURCE = Path(mepol.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


def test_few_files_lie_at_the_top_and_none_is_long():
    assert len(list(SOURCE.glob("*.py"))) <= 8
    long = {str(path.relative_to(SOURCE)): n for path in FILES if (n := len(path.read_text().splitlines())) > 300}
    assert long == {}


def test_no_function_stands_twice():
    """Two functions of one body, whatever their names; those of a line or two say too little to be twins."""
    places = defaultdict(list)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                if sum(isinstance(part, ast.stmt) for statement in body for part in ast.walk(statement)) >= 3:
                    text = "\n".join(ast.dump(statement) for statement in body)
                    places[text].append(f"{path.relative_to(SOURCE)}:{node.name}")
    assert [found for found in places.values() if len(found) > 1] == []

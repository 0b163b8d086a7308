"""docs/results/reliability.md shows what was tried, and nothing else."""

from __future__ import annotations

import page


def test_the_page_shows_the_ledger() -> None:
    text = page.PAGE.read_text()
    assert page.renewed(text) == text, "run tests/reliability/page.py"
    assert text.count("\n| ") > len(page.rows()) > 50

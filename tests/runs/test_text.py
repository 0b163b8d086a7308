"""Foreign text, made safe for the place where it is shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mepol.runs.text import cell, file_name, label, plain


@given(st.text())
def test_no_text_acts_on_a_terminal(text: str) -> None:
    shown = plain(text)
    assert not any(ord(c) < 32 and c not in "\n\t" for c in shown)
    assert not any(0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in shown)
    shown.encode()  # no lone surrogate is left


def test_escapes_are_shown() -> None:
    assert plain("\x1b]52;c;Zm9v\x07") == "\\x1b]52;c;Zm9v\\x07"
    assert plain("right\u202eleft") == "right\\x202eleft"
    assert plain("ein Käfer ± 1\n") == "ein Käfer ± 1\n"
    assert plain("a" * 3000).endswith("a... (3000 characters)")


def test_dollars_are_no_formula_in_a_figure() -> None:
    assert label("$x^2$") == r"\$x^2\$"


def test_a_cell_is_no_formula_in_a_spreadsheet() -> None:
    assert cell('=HYPERLINK("x")') == '\'=HYPERLINK("x")'
    assert cell("-1.5e3") == "-1.5e3"


@given(st.text())
def test_a_file_name_is_one_plain_name(text: str) -> None:
    name = file_name(text)
    assert name
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert not name.startswith((".", "-"))
    assert len(name) <= 80


def test_paths_become_names() -> None:
    assert file_name("../../etc/passwd") == "etc-passwd"
    assert file_name("/abs:goal") == "abs-goal"
    assert file_name("..") == "unnamed"

"""Typed CSV: what is written is read back, and what is not a row is named by its line."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mepol.errors import RunError
from mepol.runs.tables import Table, csv_line


@dataclass(frozen=True, slots=True)
class Row:
    turn: int
    value: float
    name: str = ""
    count: int | None = None
    share: float | None = None


TABLE = Table("rows.csv", Row)
numbers = st.floats(-1e100, 1e100)


def write(path: Path, text: str) -> Path:
    (path / "rows.csv").write_text(text)
    return path / "rows.csv"


@given(
    st.lists(st.builds(Row, st.integers(-(10**18), 10**18), numbers, st.just("a b"), st.none() | st.integers(0, 99)))
)
def test_rows_come_back_to_the_last_digit(rows: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), TABLE.head + "".join(TABLE.line(row) for row in rows))
        assert TABLE.read(path) == rows


def test_a_torn_last_line_does_not_count(tmp_path: Path) -> None:
    assert TABLE.read(write(tmp_path, TABLE.head + "0,1.5,a,,\n1,2.")) == [Row(0, 1.5, "a")]


def test_a_table_of_an_earlier_version_may_lack_columns(tmp_path: Path) -> None:
    assert TABLE.read(write(tmp_path, "turn,value\n3,0.5\n")) == [Row(3, 0.5)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not start with the columns"),
        ("turn\n", "does not start with the columns turn, value"),
        ("turn,value,turn\n", "does not start"),
        ("turn,value,other\n", "does not start"),
        ("turn,value\n0,1\n1\n", "line 3: 1 cells"),
        ("turn,value\n0,x\n", "line 2: could not convert"),
        ("turn,value\n0.5,1\n", "line 2: invalid literal"),
        ("turn,value\n,1\n", "line 2: invalid literal"),
        ("turn,value\n0,nan\n", "line 2: 'nan' is not a number that a run writes"),
        ("turn,value\n0,inf\n", "line 2: 'inf' is not a number"),
        ("turn,value\n0,1e308\n", "line 2: '1e308' is not a number"),
        (f"turn,value\n{'9' * 400},1\n", "line 2: '99999999999999999999'"),
        (f"turn,value\n{'9' * 5000},1\n", "line 2: '99999999999999999999'"),
        ('turn,value\n"0,1\n', "cannot read"),
    ],
)
def test_what_is_not_a_row_is_named_by_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RunError, match=message):
        TABLE.read(write(tmp_path, text))


def test_bytes_that_are_no_text_are_an_error_with_the_path(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"turn,value\n0,\xff\n")
    with pytest.raises(RunError, match=r"cannot read .*rows\.csv"):
        TABLE.read(tmp_path / "rows.csv")


def test_text_cannot_be_taken_for_a_formula() -> None:
    assert csv_line(["=1+1", "@x", "-2.5", "+3e4", "plain", None, 7]) == "'=1+1,'@x,-2.5,+3e4,plain,,7\n"

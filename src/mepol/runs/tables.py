"""Tables as typed CSV: one dataclass is one line, None an empty cell; read back with the line at fault named.

A table grows by whole lines. A last line without its end is what a kill left, and does not count.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from mepol.errors import RunError
from mepol.runs.files import read_text
from mepol.runs.text import cell

R = TypeVar("R")
MAX_BYTES = 1 << 26
MAX_ROWS = 100_001  # of a run of a hundred thousand epochs
LARGEST = 1e100  # no number of a run is larger, and figures cannot show them


@dataclass(frozen=True)
class Table(Generic[R]):
    """A kind of table: the dataclass `row` says the columns and their types (int, float, str, and these or None).

    name: of the file in a run directory. finite: whether a NaN or infinite number is a fault; it is none of a step
    that was tried and taken back. most: lines that are read; more of them are refused, so that a stranger's table
    costs neither gigabytes nor minutes.
    """

    name: str
    row: type[R]
    finite: bool = True
    most: int = MAX_ROWS

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(f.name for f in dataclasses.fields(self.row))  # type: ignore[arg-type]

    @property
    def head(self) -> str:
        """The first line."""
        return csv_line(self.columns)

    def line(self, row: R) -> str:
        """One row as a line."""
        return csv_line(getattr(row, name) for name in self.columns)

    def read(self, path: Path) -> list[R]:
        """The whole lines of `path` as rows; anything that is none is a RunError naming the line.

        A table of an earlier version may lack columns, which are then None.
        """
        try:
            text = read_text(path, MAX_BYTES)
        except (OSError, UnicodeDecodeError) as fault:
            raise RunError(f"cannot read {path}: {fault}") from fault
        whole = text[: text.rfind("\n") + 1]
        lines = csv.reader(io.StringIO(whole, newline=""), strict=True)
        try:
            columns = next(lines, [])
            self._check_head(columns, path)
            cells = [_reader(*self._kinds[name], self.finite) for name in columns]
            rows: list[R] = []
            for number, texts in enumerate(lines, start=2):
                if number > self.most + 1:
                    raise RunError(f"{path} has more than {self.most} lines")
                try:
                    values = [read(text) for read, text in zip(cells, texts, strict=True)]
                except ValueError as fault:
                    many = f"{len(texts)} cells, where {len(columns)} columns are"
                    raise RunError(f"{path}, line {number}: {many if len(texts) != len(columns) else fault}") from fault
                rows.append(self.row(**dict(zip(columns, values, strict=True))))
        except csv.Error as fault:
            raise RunError(f"cannot read {path}: {fault}") from fault
        return rows

    def _check_head(self, columns: Sequence[str], path: Path) -> None:
        needed = [f.name for f in dataclasses.fields(self.row) if f.default is dataclasses.MISSING]  # type: ignore[arg-type]
        good = len(set(columns)) == len(columns) and set(columns) <= set(self.columns)
        if not good or not set(needed) <= set(columns):
            raise RunError(f"{path} does not start with the columns {', '.join(self.columns)}")

    @property
    def _kinds(self) -> dict[str, tuple[type, bool]]:
        """The plain type of each column, and whether it may be empty."""
        found = {}
        for name, hint in get_type_hints(self.row).items():
            parts = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
            found[name] = next(p for p in parts if p is not type(None)), type(None) in parts
        return found


def _reader(kind: type, may_be_empty: bool, finite: bool) -> Callable[[str], Any]:
    """What turns one cell into its value; ValueError where it is none of its kind."""

    def number(text: str) -> Any:
        if text == "" and may_be_empty:
            return None
        if len(text) > 40:
            raise ValueError(f"{text[:20]!r}... is not a number that a run writes")
        value = kind(text)
        if finite and not -LARGEST <= value <= LARGEST:  # nor is NaN
            raise ValueError(f"{text!r} is not a number that a run writes")
        return value

    return (lambda text: text or (None if may_be_empty else "")) if kind is str else number


def csv_line(values: Iterable[object]) -> str:
    """One line of CSV; None is empty, and text cannot be taken for a formula."""
    buffer = io.StringIO()
    cells = ("" if v is None else cell(v) if isinstance(v, str) else v for v in values)
    csv.writer(buffer, lineterminator="\n").writerow(list(cells))
    return buffer.getvalue()


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A whole table as text."""
    return csv_line(columns) + "".join(csv_line(row) for row in rows)


def columns_of(rows: Sequence[object], names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Rows as columns: int64 where every value is whole, else float64 with NaN where there is none."""
    table = {}
    for name in names:
        values = [getattr(row, name) for row in rows]
        whole = all(isinstance(v, int) for v in values)
        table[name] = np.array([np.nan if v is None else v for v in values], dtype=np.int64 if whole else np.float64)
    return table

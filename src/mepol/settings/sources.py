"""Settings as rows of name, value and source: a config is built from them, so a value and its source cannot part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from mepol.settings.names import with_settings

C = TypeVar("C")


class Row(NamedTuple):
    """One setting by its flat name, with where its value comes from."""

    setting: str
    value: Any
    source: str


Rows = tuple[Row, ...]


def rows(source: str, **values: Any) -> Rows:
    """Settings that come from one place."""
    return tuple(Row(name, value, source) for name, value in values.items())


def over(base: Iterable[Row], *changes: Row) -> Rows:
    """`base` with some settings replaced or added; each setting once."""
    return tuple({row.setting: row for row in (*base, *changes)}.values())


def built(config: C, rows: Iterable[Row]) -> C:
    """`config` with the values of `rows`."""
    return with_settings(config, {row.setting: row.value for row in rows})

"""Settings as JSON, and back as if a stranger had written it: anything that is not one is a ConfigError."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from mepol.errors import ConfigError
from mepol.settings.ranges import require_known, shown

MAX_INTEGER = 1 << 64
"""No setting comes near it; larger ones take time to print and to compare."""
MAX_DEPTH = 16
"""Tables and lists inside each other, in a table of plain values."""

C = TypeVar("C")


def to_json(config: Any) -> str:
    """A config dataclass as JSON text."""
    return json.dumps(dataclasses.asdict(config), indent=2, allow_nan=False) + "\n"


def from_json(kind: type[C], text: str) -> C:
    """Rebuild a config of `kind` from JSON text; anything unknown, missing or of another type is a ConfigError.

    A layout that an older version wrote is upgraded first, by `kind.upgrade` where there is one.
    """
    try:
        data = json.loads(text)
        built: C = build(kind, upgraded(kind, data), kind.__name__)
    except (ValueError, RecursionError) as fault:
        raise ConfigError(f"not JSON: {fault}") from fault
    return built


def upgraded(kind: Any, data: Any) -> Any:
    """`data` in today's layout of `kind`."""
    return kind.upgrade(dict(data)) if hasattr(kind, "upgrade") and isinstance(data, dict) else data


def slots_of(kind: Any, data: Mapping[str, Any]) -> dict[str, type | None]:
    """The fields of `kind` whose type depends on the other settings in `data`; None is for None alone."""
    found: dict[str, type | None] = kind.slots(data) if hasattr(kind, "slots") else {}
    return found


def build(kind: Any, data: Any, where: str) -> Any:
    """`data`, checked to be of type `kind` (dataclass, tuple, table, union, literal or plain)."""
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, data, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        return _build_tuple(arguments, data, where)
    if origin is dict:
        if not isinstance(data, dict):
            raise ConfigError(f"{where} must be an object, not {shown(data)}")
        require_plain(where, data)
        return data
    if origin is Literal:
        require_known(where, data, arguments)
        return data
    if type(None) in arguments:
        return None if data is None else build(arguments[0], data, where)
    return _build_plain(kind, data, where)


def _build_plain(kind: Any, data: Any, where: str) -> Any:
    if isinstance(data, int) and abs(data) > MAX_INTEGER:
        raise ConfigError(f"{where} = {shown(data)[:20]}... is larger than any setting")
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is not kind:
        raise ConfigError(f"{where} = {shown(data)} is not of type {kind.__name__}")
    if kind is str:
        _require_text(where, data)
    return data


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields; they do not change."""
    found = get_type_hints(kind)
    return {item.name: found[item.name] for item in dataclasses.fields(kind)}


def _build_dataclass(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise ConfigError(f"{where} must be an object, not {shown(data)}")
    hints = dict(_hints(kind))
    hints |= {name: slot or type(None) for name, slot in slots_of(kind, data).items()}
    if unknown := sorted(set(data) - set(hints)):
        raise ConfigError(f"{where} has no setting {shown(unknown[0])}; it has {', '.join(hints)}")
    needed: Callable[[Any], bool] = lambda f: f.default is f.default_factory is dataclasses.MISSING  # noqa: E731
    if missing := [f.name for f in dataclasses.fields(kind) if needed(f) and f.name not in data]:
        raise ConfigError(f"{where} lacks {missing[0]!r}")
    return kind(**{name: build(hints[name], value, f"{where}.{name}") for name, value in data.items()})


def _build_tuple(arguments: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise ConfigError(f"{where} must be a list, not {shown(data)}")
    kinds = [arguments[0]] * len(data) if Ellipsis in arguments else list(arguments)
    if len(kinds) != len(data):
        raise ConfigError(f"{where} needs {len(kinds)} values, not {len(data)}")
    return tuple(build(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(zip(kinds, data, strict=True)))


# --- Tables of plain values -------------------------------------------------------------------------------------------


def require_plain(where: str, value: Any, depth: int = 0) -> None:
    """ConfigError unless `value` is what JSON can hold: tables, lists, texts, finite numbers, true, false, null.

    depth: tables and lists around it, of which there are at most MAX_DEPTH.
    """
    if depth > MAX_DEPTH:
        raise ConfigError(f"{where} is not possible: it must be nested at most {MAX_DEPTH} deep")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ConfigError(f"{where} has the key {shown(key)}, which is no text")
            _require_text(where, key)
            require_plain(f"{where}[{shown(key)}]", item, depth + 1)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            require_plain(f"{where}[{i}]", item, depth + 1)
    elif isinstance(value, str):
        _require_text(where, value)
    elif isinstance(value, bool) or value is None:
        return
    elif type(value) not in (int, float) or (not -MAX_INTEGER <= value <= MAX_INTEGER and type(value) is int):
        raise ConfigError(f"{where} = {shown(value)} cannot be stored: only plain values of JSON can")
    elif not math.isfinite(value):
        raise ConfigError(f"{where} = {value} is not possible: it must be a finite number")


def _require_text(where: str, text: str) -> None:
    """ConfigError for half a character (a lone surrogate), which no file and no terminal can show."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ConfigError(f"{where} = {shown(text)} is no text: it has half a character")

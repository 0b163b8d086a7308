"""Settings as dataclasses: checked, changed by name, written as JSON and read back as if a stranger had made it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from mepol.errors import ConfigError


def require(condition: bool, name: str, value: object, allowed: str) -> None:
    """ConfigError unless `condition` holds."""
    if not condition:
        raise ConfigError(f"{name} = {value} is not possible: it must be {allowed}")


def require_widths(hidden: tuple[int, ...], name: str) -> None:
    """ConfigError unless `hidden` are widths of layers that a network can have."""
    require(len(hidden) <= 30, name, f"{len(hidden)} layers", "at most 30 layers")
    require(all(1 <= w <= 65536 for w in hidden), name, hidden, "widths from 1 to 65536")


C = TypeVar("C")

# --- Settings by their flat names -----------------------------------------------------------------------------------


def flat_settings(config: Any) -> dict[str, Any]:
    """Every setting of a config dataclass by its own name, whatever room it is in; names are unique."""
    pairs: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        pairs |= flat_settings(value) if dataclasses.is_dataclass(value) else {item.name: value}
    return pairs


def with_settings(config: C, changes: dict[str, Any]) -> C:
    """`config` with settings replaced by flat name; an unknown name or a value of another type is a ConfigError.

    Everything is replaced before anything is checked against anything else, so the order does not matter.
    """
    known = flat_settings(config)
    if unknown := sorted(set(changes) - set(known)):
        near = get_close_matches(unknown[0], known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
        raise ConfigError(f"no setting {unknown[0]!r}{hint}")
    built: C = _build(type(config), _changed(config, changes), type(config).__name__)
    return built


def _changed(config: Any, changes: dict[str, Any]) -> dict[str, Any]:
    return {
        item.name: _changed(value, changes) if dataclasses.is_dataclass(value) else changes.get(item.name, value)
        for item in dataclasses.fields(config)
        for value in [getattr(config, item.name)]
    }


# --- JSON ---------------------------------------------------------------------------------------------------------


def to_json(config: Any) -> str:
    """A config dataclass as JSON text."""
    return json.dumps(dataclasses.asdict(config), indent=2) + "\n"


def from_json(kind: type[C], text: str) -> C:
    """Rebuild a config of `kind` from JSON text; anything unknown, missing or of another type is a ConfigError."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise ConfigError(f"not JSON: {fault}") from fault
    built: C = _build(kind, data, kind.__name__)
    return built


def _build(kind: Any, data: Any, where: str) -> Any:
    """`data`, checked to be of type `kind` (dataclass, tuple, union, literal or plain)."""
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, data, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        return _build_tuple(arguments, data, where)
    if origin is Literal:
        if data not in arguments:
            raise ConfigError(f"{where} = {data!r} is not one of {', '.join(map(repr, arguments))}")
        return data
    if type(None) in arguments:
        return None if data is None else _build(arguments[0], data, where)
    if kind is float and type(data) is int:
        if abs(data) > 1 << 1000:
            raise ConfigError(f"{where} is larger than any number a float can hold")
        return float(data)
    if type(data) is not kind:
        raise ConfigError(f"{where} = {data!r} is not of type {kind.__name__}")
    return data


def _build_dataclass(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise ConfigError(f"{where} must be an object, not {data!r}")
    hints = get_type_hints(kind)
    if unknown := sorted(set(data) - set(hints)):
        raise ConfigError(f"{where} has no setting {unknown[0]!r}; it has {', '.join(hints)}")
    needed: Callable[[Any], bool] = lambda f: f.default is f.default_factory is dataclasses.MISSING  # noqa: E731
    if missing := [f.name for f in dataclasses.fields(kind) if needed(f) and f.name not in data]:
        raise ConfigError(f"{where} lacks {missing[0]!r}")
    return kind(**{name: _build(hints[name], value, f"{where}.{name}") for name, value in data.items()})


def _build_tuple(arguments: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise ConfigError(f"{where} must be a list, not {data!r}")
    kinds = [arguments[0]] * len(data) if Ellipsis in arguments else list(arguments)
    if len(kinds) != len(data):
        raise ConfigError(f"{where} needs {len(kinds)} values, not {len(data)}")
    return tuple(_build(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(zip(kinds, data, strict=True)))

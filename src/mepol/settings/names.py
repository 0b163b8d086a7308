"""Settings by their flat names, whatever room of a config they are in."""

from __future__ import annotations

import dataclasses
from difflib import get_close_matches
from typing import Any, TypeVar

from mepol.errors import ConfigError
from mepol.settings.stored import build, slots_of

C = TypeVar("C")


def flat_settings(config: Any) -> dict[str, Any]:
    """Every setting of a config dataclass by its own name, with its room's prefix if that has one; names are unique."""
    pairs: dict[str, Any] = {}
    prefix = getattr(config, "prefix", "")
    empty = [name for name, kind in slots_of(type(config), vars(config)).items() if kind is None]
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if item.name not in empty:
            pairs |= flat_settings(value) if dataclasses.is_dataclass(value) else {f"{prefix}{item.name}": value}
    return pairs


def with_settings(config: C, changes: dict[str, Any]) -> C:
    """`config` with settings replaced by flat name; an unknown name or a value of another type is a ConfigError.

    Everything is replaced before anything is checked against anything else, so the order does not matter. Where a
    change asks for other settings in a room, as that of the explorer does, the room starts from its defaults.
    """
    known: dict[str, Any] = {}
    data = _changed(config, changes, known)
    if unknown := sorted(set(changes) - set(known)):
        near = get_close_matches(unknown[0], known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
        raise ConfigError(f"no setting {unknown[0]!r}{hint}")
    built: C = build(type(config), data, type(config).__name__)
    return built


def _changed(config: Any, changes: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """The fields of `config` as plain values, with `changes`; every name that there is goes into `known`."""
    prefix = getattr(config, "prefix", "")
    data = {item.name: getattr(config, item.name) for item in dataclasses.fields(config)}
    plain = {k: changes.get(f"{prefix}{k}", v) for k, v in data.items() if not dataclasses.is_dataclass(v)}
    for name, kind in slots_of(type(config), plain).items():
        plain.pop(name, None)
        if type(data[name]) is not (kind or type(None)):
            data[name] = kind() if kind else None
    known |= {f"{prefix}{name}": value for name, value in plain.items()}
    return {
        name: plain[name] if name in plain else value and _changed(value, changes, known)
        for name, value in data.items()
    }


def hashable(value: Any) -> Any:
    """A setting's value as something that can be a key: tables become their sorted pairs, lists tuples."""
    if isinstance(value, dict):
        return tuple((key, hashable(value[key])) for key in sorted(value))
    return tuple(map(hashable, value)) if isinstance(value, list | tuple) else value

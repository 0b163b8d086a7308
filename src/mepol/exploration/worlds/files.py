"""A class of environments as a TOML file of plain values; nothing in it is executed.

[settings]                      # optional: any setting by its flat name, as in a study
risk = 0.35
trajectories = 200
[[world]]
name = "north"                  # optional
env = "mepol/GridWorld-v0"
env_kwargs = {slope = "north"}  # optional
probability = 0.8
[[world]]
name = "south"
env = "mepol/GridWorld-v0"
env_kwargs = {slope = "south"}
probability = 0.2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mepol.errors import ConfigError
from mepol.exploration.worlds.config import named
from mepol.runs.files import read_toml
from mepol.runs.trust import require_trusted_tables


def read_worlds(path: str | Path) -> dict[str, Any]:
    """The settings that the class in a TOML file stands for, by flat name, `envs` among them."""
    data = read_toml(Path(path), "the environments in")
    worlds, settings = data.get("world"), data.get("settings", {})
    require_trusted_tables((settings, *(worlds if isinstance(worlds, list) else ())), Path(path))
    try:
        if unknown := sorted(set(data) - {"world", "settings"}):
            raise ConfigError(f"a class of environments has no entry {unknown[0]!r}; it has settings and world")
        if not isinstance(worlds, list) or not isinstance(settings, dict):
            raise ConfigError("it needs a [[world]] table for each environment, and settings are one table")
        return {**settings, **settings_of(worlds)}
    except ConfigError as fault:
        raise ConfigError(f"{path}: {fault}") from fault


def settings_of(worlds: Sequence[Any]) -> dict[str, Any]:
    """The settings that tables of worlds stand for: the first is where things are done that need one environment."""
    envs = named(worlds)
    if not envs or not isinstance(envs[0].get("env"), str):
        raise ConfigError("a class of environments needs at least one world with an env")
    return {"envs": envs, "env": envs[0]["env"], "env_kwargs": envs[0]["env_kwargs"]}


def asked_worlds(envs: str | Path | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The same of what a user hands in: a file, or the tables themselves."""
    return read_worlds(envs) if isinstance(envs, str | Path) else settings_of([*envs])

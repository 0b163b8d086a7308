"""A study: variants of one exploration, and the seeds that each runs with.

A TOML file of plain values; nothing in it is executed:

    preset = "mountain-car"        # or env = "Pendulum-v1"
    seeds = 8                      # or a list, [3, 4, 5]
    [settings]                     # by flat name, for all
    trajectories = 100
    [[variant]]
    name = "k-4"
    k = 4
    [[variant]]
    name = "tuned"
    preset = "mountain-car-tuned"
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mepol.errors import ConfigError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.presets import preset, starting_config
from mepol.runs.files import read_toml
from mepol.runs.trust import require_trusted_tables
from mepol.settings import with_settings

MAX_RUNS = 10_000  # of a study in all


@dataclass(frozen=True)
class Member:
    """One run of a study."""

    variant: str
    config: Any
    """An ExploreConfig; the settings of another phase where `module` works on that."""
    path: Path
    module: str = "mepol.exploration.member"
    """What its process runs, with the directory as argument and the settings on standard input."""

    @property
    def name(self) -> str:
        """`variant-seed-S`, its directory."""
        return self.path.name


@dataclass(frozen=True)
class Study:
    """Variants by name, and the seeds that each runs with."""

    variants: dict[str, ExploreConfig]
    seeds: tuple[int, ...]

    def members(self, out: Path, threads: int) -> list[Member]:
        """Every variant with every seed, in that order, as directories below `out`.

        threads: of each one, where the study does not say.
        """
        return [
            Member(
                name,
                with_settings(config, {"seed": seed, "threads": config.machine.threads or threads}),
                out / f"{name}-seed-{seed}",
            )
            for name, config in self.variants.items()
            for seed in self.seeds
        ]


def read_study(path: Path, changes: dict[str, Any] | None = None) -> Study:
    """The study in a TOML file; anything unknown or impossible is a ConfigError that names the file."""
    data = read_toml(path, "the study")
    variants = data.get("variant")
    require_trusted_tables((data, data.get("settings"), *(variants if isinstance(variants, list) else ())), path)
    try:
        return study_of(data, changes)
    except ConfigError as fault:
        raise ConfigError(f"{path}: {fault}") from fault


def study_of(data: dict[str, Any], changes: dict[str, Any] | None = None) -> Study:
    """The study that plain values describe; `changes` hold for all variants, over what those say themselves."""
    if unknown := sorted(set(data) - {"preset", "env", "seeds", "settings", "variant"}):
        raise ConfigError(f"a study has no entry {unknown[0]!r}; it has preset, env, seeds, settings and variant")
    common = data.get("settings", {})
    variants = data.get("variant", [{"name": _named_after(data.get("preset") or data.get("env") or "run")}])
    if not isinstance(common, dict) or not isinstance(variants, list) or not all(isinstance(v, dict) for v in variants):
        raise ConfigError("settings must be a table, and each variant a [[variant]] table")
    configs: dict[str, ExploreConfig] = {}
    for variant in variants:
        own = dict(variant)
        name = own.pop("name", None)
        if not isinstance(name, str) or not name or not set(name) <= _NAME or name.startswith((".", "-")):
            raise ConfigError(f"a variant needs a name of letters, digits, '.', '_' and '-', not {name!r}")
        if name in configs:
            raise ConfigError(f"two variants are called {name!r}")
        chosen = own.pop("preset", data.get("preset"))
        settings = {**common, **own, **(changes or {})}
        try:
            configs[name] = _config(chosen, data.get("env"), settings)
        except ConfigError as fault:
            raise ConfigError(f"variant {name!r}: {fault}") from fault
    if not configs:
        raise ConfigError("a study needs at least one variant")
    seeds = seeds_of(data.get("seeds", 1))
    if len(seeds) * len(configs) > MAX_RUNS:
        raise ConfigError(f"{len(configs)} variants with {len(seeds)} seeds are more than {MAX_RUNS} runs")
    return Study(configs, seeds)


_NAME = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def _named_after(what: Any) -> str:
    """A variant's name out of a preset's or an environment's, whatever letters that has."""
    return "".join(letter if letter in _NAME else "-" for letter in str(what)).lstrip("-.") or "run"


def _config(name: Any, env: Any, settings: dict[str, Any]) -> ExploreConfig:
    if isinstance(name, str):
        return preset(name).config_for(settings.get("explorer", "mepol"), settings)
    if isinstance(env, str) and name is None:
        first = {key: settings[key] for key in ("explorer", "observations", "encoder") if key in settings}
        start = starting_config(env, **first)
        return with_settings(start, {key: value for key, value in settings.items() if key not in first})
    raise ConfigError('a study needs preset = "..." or env = "..."')


def seeds_of(value: Any) -> tuple[int, ...]:
    """0 .. value-1, or the listed seeds; so few that a directory of each can be made."""
    if type(value) is int and value > MAX_RUNS:
        raise ConfigError(f"seeds = {value} is not possible: it must be at most {MAX_RUNS}")
    seeds = list(range(value)) if type(value) is int else value
    if not isinstance(seeds, list) or not seeds or not all(type(s) is int for s in seeds):
        raise ConfigError(f"seeds = {value!r} is not possible: it must be a number above 0, or a list of numbers")
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"seeds = {value!r} name a seed twice")
    return tuple(seeds)

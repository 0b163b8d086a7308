"""Whether numbers of several runs may stand side by side: an index is of an environment, features, N, k and eps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mepol.envs.coordinates import name_of
from mepol.errors import ConfigError, EnvironmentFault
from mepol.evaluation.assess import Protocol
from mepol.runs.directory import RunDirectory
from mepol.runs.domain import load_domain

APART = ("environment", "its arguments", "features")
"""What makes two indices measures of two things: they are not shown side by side unless that is asked for."""


@dataclass(frozen=True)
class Alike:
    """What the numbers of some runs are of and rest on, as short texts by name, and where the runs differ."""

    facts: tuple[dict[str, str], ...]

    @property
    def differing(self) -> list[str]:
        """Names of what is not the same in all."""
        return [name for name in self.facts[0] if len({fact[name] for fact in self.facts}) > 1]

    def words(self, names: Sequence[str]) -> str:
        """`environment (Ant-v5, Hopper-v5), k (4, 30)`."""
        values = (", ".join(dict.fromkeys(fact[name] for fact in self.facts)) for name in names)
        return ", ".join(f"{name} ({some})" for name, some in zip(names, values, strict=True))

    def require_one_thing(self) -> None:
        """ConfigError where the runs' indices are of different things."""
        if wrong := [name for name in self.differing if name in APART]:
            raise ConfigError(
                f"these runs differ in {self.words(wrong)}: their indices measure different things; "
                "--anyway shows them side by side"
            )

    @property
    def warning(self) -> str:
        """A sentence where the runs' indices rest on unlike samples; empty where they do not."""
        unlike = [name for name in self.differing if name not in APART]
        return f"these indices are not on one scale, they differ in {self.words(unlike)}" if unlike else ""


def alike(runs: Sequence[RunDirectory[Any, Any]], changes: Mapping[str, Any] | None = None) -> Alike:
    """What each of `runs` is measured by; changes: of the protocol, for all of them."""
    return Alike(tuple(_facts(run, {k: v for k, v in (changes or {}).items() if v is not None}) for run in runs))


def _facts(run: RunDirectory[Any, Any], changes: Mapping[str, Any]) -> dict[str, str]:
    config: Any = run.config
    protocol: Protocol = run.phase.protocol(config)
    settings = {name: getattr(protocol, name) for name in ("trajectories", "horizon", "k", "eps")} | dict(changes)
    try:
        domain = load_domain(run)
        place, features = domain.env, domain.features
        named = name_of(features) if callable(features) else ",".join(domain.names[i] for i in features)
    except EnvironmentFault:  # an earlier version's run, whose environment is not here
        place, named = config.env, getattr(config, "features", "all")
    return {
        "environment": place,
        "its arguments": json.dumps(config.env_kwargs, sort_keys=True),
        "features": named if len(named) <= 60 else f"{named[:57]}... ({named.count(',') + 1})",
        "N": str(settings["trajectories"] * settings["horizon"]),
        "k": str(settings["k"]),
        "eps": f"{settings['eps']:g}",
    }

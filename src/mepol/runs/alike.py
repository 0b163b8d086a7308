"""Whether numbers of several runs may stand side by side: an index is of an environment, features, N, k and eps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mepol.envs.coordinates import name_of
from mepol.errors import ConfigError, MepolError
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
    written = [_written(run) for run in runs]
    # Settings that are the same mean the same; others may do so too (`all` and `x,y`), which the domains know.
    places = written if len({*written}) == 1 and None not in written else [_resolved(run) for run in runs]
    return Alike(tuple(_facts(run, *place, changes or {}) for run, place in zip(runs, places, strict=True) if place))


def _written(run: RunDirectory[Any, Any]) -> tuple[str, str] | None:
    """Environment and features as the settings have them; None where these say nothing of features."""
    features = getattr(run.config, "features", None)
    return None if features is None else (run.config.env, features)


def _resolved(run: RunDirectory[Any, Any]) -> tuple[str, str]:
    """Environment and features by name, as the run's domain has them."""
    try:
        domain = load_domain(run)
    except MepolError:  # an earlier version's run, whose environment is not here, or a damaged file
        return _written(run) or (run.config.env or run.config.task, "all")
    features = domain.features
    return domain.env, name_of(features) if callable(features) else ",".join(domain.feature_labels or ())


def _facts(run: RunDirectory[Any, Any], place: str, features: str, changes: Mapping[str, Any]) -> dict[str, str]:
    protocol: Protocol = run.phase.protocol(run.config)
    settings = {name: getattr(protocol, name) for name in ("trajectories", "horizon", "k", "eps")}
    settings |= {name: value for name, value in changes.items() if value is not None}
    features = settings.pop("features", features)
    several = getattr(run.config, "worlds", None)  # an index of several environments is their tail's at a risk
    worlds = getattr(several, "envs", ())
    return {
        "environment": place,
        "its arguments": json.dumps(worlds or run.config.env_kwargs, sort_keys=True),
        "features": features if len(features) <= 60 else f"{features[:57]}... ({features.count(',') + 1})",
        "N": str(settings["trajectories"] * settings["horizon"]),
        "k": str(settings["k"]),
        "eps": f"{settings['eps']:g}",
        "risk": f"{getattr(several, 'risk', 1.0):g}",
    }

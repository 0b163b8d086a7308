"""What a user asks for in Python, as settings and as the objects that no settings hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mepol.algorithm.ascent import Rule
from mepol.envs.coordinates import name_of
from mepol.envs.make import limit_of
from mepol.errors import ConfigError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.explorers import Kind, explorer_kind
from mepol.exploration.presets import general, starting_config
from mepol.exploration.seeing import seeing
from mepol.exploration.workshop import Given
from mepol.exploration.worlds.start import starting_worlds
from mepol.settings import GIVEN, with_settings

OBJECTS: dict[str, tuple[str, Any, Callable[[Any], str]]] = {
    "policy": ("policy_class", Callable, name_of),
    "objective": ("objective", Callable, name_of),
    "rule": ("rule", Rule, lambda rule: str(rule.name)),
    "explorer": ("explorer", Kind, lambda kind: str(kind.name)),
}
"""Objects of an exploration: the setting that names each, what it must be, and its name."""


def configured(
    what: Any,
    fast: bool,
    seed: int,
    epochs: int | None,
    features: str | Callable[..., Any] | None,
    env_kwargs: dict[str, Any] | None,
    settings: dict[str, Any],
) -> tuple[ExploreConfig, Given]:
    """Settings and objects of an exploration. An object stands in the settings by its name alone."""
    changes: dict[str, Any] = {"seed": seed, **settings}
    paper_rule = bool(changes.pop("paper_rule", False))
    objects: dict[str, Any] = {"sampler": changes.pop("sampler", None)}
    for name, (setting, kind, title) in OBJECTS.items():
        if name in changes and not isinstance(changes[name], str):
            objects[name] = thing = changes.pop(name)
            if not isinstance(thing, kind):
                raise ConfigError(f"{name} cannot be a {type(thing).__name__}: it must be a {kind.__name__}")
            changes[setting] = f"{GIVEN}{title(thing)}"
    if "init" in changes:
        changes["init"] = str(getattr(changes["init"], "path", changes["init"]))  # a Run is where it lies
    if features is not None:
        changes["features"] = features
        if callable(features):
            objects["features"], changes["features"] = features, f"{GIVEN}{name_of(features)}"
    explorer = str(changes.pop("explorer", "mepol"))
    view: dict[str, str] = {name: str(changes.pop(name)) for name in ("observations", "encoder") if name in changes}
    if "explorer" not in objects and explorer != "mepol":
        for name in ("policy", "rule", "objective"):
            if name in settings:
                raise ConfigError(
                    f"{name} is not possible beside explorer = {explorer!r}, which ignores it: leave it out"
                )
    if (envs := changes.pop("envs", None)) is not None:
        if what is not None and not isinstance(what, str):
            raise ConfigError("envs are several environments by name: give them with a preset, an id, or alone")
        config = starting_worlds(envs, what, explorer=explorer, quick=fast, paper_rule=paper_rule, **view)
    elif what is None:
        raise ConfigError("explore needs a preset, an environment, or envs: mepol.explore('gridworld')")
    elif isinstance(what, str):
        config = starting_config(what, explorer=explorer, quick=fast, paper_rule=paper_rule, **view)
    else:
        objects["env"] = what
        config = with_settings(ExploreConfig(env=f"{GIVEN}{name_of(what)}"), {"explorer": explorer})
        config = general(config, limit=limit_of(what, env_kwargs), paper_rule=paper_rule)
        config = seeing(config, view)
    if env_kwargs:
        changes["env_kwargs"] = dict(env_kwargs)
    if epochs is not None:
        explores = objects.get("explorer") or explorer_kind(explorer)
        changes[explores.length_name or "epochs"] = epochs
    return with_settings(config, changes), Given(**objects)

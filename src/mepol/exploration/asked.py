"""What a user asks for in Python, as settings and as the objects that no settings hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mepol.envs.coordinates import name_of
from mepol.exploration.config import ExploreConfig
from mepol.exploration.explorers import explorer_kind
from mepol.exploration.presets import fast as fast_of
from mepol.exploration.presets import starting_config
from mepol.exploration.workshop import Given
from mepol.settings import GIVEN, with_settings


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
    objects: dict[str, Any] = {name: changes.pop(name) for name in ("policy", "objective") if name in changes}
    for name in ("rule", "explorer"):
        if name in changes and not isinstance(changes[name], str):
            objects[name] = changes[name]
            changes[name] = f"{GIVEN}{objects[name].name}"
    if features is not None:
        changes["features"] = features
        if callable(features):
            objects["features"], changes["features"] = features, f"{GIVEN}{name_of(features)}"
    explorer = str(changes.pop("explorer", "mepol"))
    if isinstance(what, str):
        config = starting_config(what, explorer=explorer, quick=fast)
    else:
        objects["env"] = what
        config = with_settings(ExploreConfig(env=f"{GIVEN}{name_of(what)}"), {"explorer": explorer})
        config = fast_of("", config) if fast else config
    if env_kwargs:
        changes["env_kwargs"] = dict(env_kwargs)
    if epochs is not None:
        kind = objects.get("explorer") or explorer_kind(explorer)
        changes[kind.length_name or "epochs"] = epochs
    return with_settings(config, changes), Given(**objects)

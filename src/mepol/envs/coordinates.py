"""Which observation coordinates are meant: by name, number or range."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from mepol.errors import ConfigError


def feature_names(env: Any, state_dim: int) -> tuple[str, ...]:
    """The environment's own names for its coordinates (`feature_names`), or `0`, `1`, ... where it has none."""
    names = getattr(env, "feature_names", None) or getattr(env, "unwrapped", env).__dict__.get("feature_names")
    return tuple(names) if names else tuple(str(i) for i in range(state_dim))


def select_features(text: str, names: Sequence[str]) -> tuple[int, ...]:
    """Coordinates that `text` means: `all`, or a comma-separated list of names, numbers and ranges `start:stop`."""
    if text.strip() in ("", "all"):
        return tuple(range(len(names)))
    chosen = [index for item in text.split(",") for index in _select(item.strip(), names)]
    if len(set(chosen)) != len(chosen):
        raise ConfigError(f"features {text!r} name a coordinate twice")
    return tuple(chosen)


def _select(item: str, names: Sequence[str]) -> Sequence[int]:
    if item in names:
        return [names.index(item)]
    if len(item) > 100:
        raise ConfigError(f"no feature is called {item[:20]!r}...")
    start, colon, stop = item.partition(":")
    if colon and all(end == "" or end.isdecimal() for end in (start, stop)):
        first, last = int(start or 0), int(stop or len(names))
        if first < last <= len(names):
            return range(first, last)
    elif item.isdecimal() and int(item) < len(names):
        return [int(item)]
    near = get_close_matches(item, names, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    raise ConfigError(f"no feature {item!r} among the {len(names)} coordinates ({listed}){hint}")

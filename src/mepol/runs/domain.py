"""domain.json of a run: read from its directory, or for a run of an earlier version off a live environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mepol.envs.domain import Domain
from mepol.errors import RunError
from mepol.runs.directory import MAX_DOMAIN, RunDirectory
from mepol.runs.files import read_text


def load_domain(run: RunDirectory[Any, Any], given: Any = None) -> Domain:
    """What the run knows of its environment; no environment is made where that is stored.

    given: objects that were handed in (exploration/workshop.py), for features that are a function.
    """
    path = run.path / "domain.json"
    if not path.exists():
        with run.phase.environments(run.config, given) as environments:
            return run.phase.domain(environments.of(1), run.config)
    try:
        text = read_text(path, MAX_DOMAIN)
    except (OSError, UnicodeDecodeError) as fault:
        raise RunError(f"cannot read {path}: {fault}") from fault
    return Domain.from_json(text, features=getattr(given, "features", None), where=str(path))


def keep_domain(run: RunDirectory[Any, Any], domain: Callable[[], Domain]) -> None:
    """Store what a run of an earlier version knows of its environment; one that has stored it keeps that."""
    if not (run.path / "domain.json").exists():
        run.door.write_text("domain.json", domain().to_json())

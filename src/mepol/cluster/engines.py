"""The engines that a sweep can be worked off by."""

from __future__ import annotations

from collections.abc import Callable

from mepol.cluster.engine import RayEngine, Storage
from mepol.exploration.processes import Processes
from mepol.exploration.sweep import Engine

ENGINES: dict[str, Callable[[str | None, Storage], Engine]] = {
    "local": lambda address, storage: Processes(),
    "ray": RayEngine,
}
"""Name -> what makes it of an address and a kind of storage, which the local one does not need."""

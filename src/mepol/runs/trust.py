"""Which names in a stranger's file may be looked up and called: an import runs code, and so does a call."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import gymnasium
from gymnasium.vector import VectorEnv

from mepol.errors import RunError
from mepol.settings import GIVEN

OURS = Path(__file__).parents[1]
"""Where this package lies."""


def require_trusted(name: str, path: Path, *, called: bool = True) -> None:
    """Refuse a stored `module:name` that would run a stranger's choice of code.

    The environment variable MEPOL_MODULES lists trusted modules. One that is loaded already runs nothing by being
    imported; but what makes an environment is called, with arguments out of the same file, and `os:system` is loaded
    too. So a loaded module is trusted for environments, wrappers and registered ids, and for functions that make one
    only where it is the user's own: neither Python's, nor installed, nor ours. The name of an object that was handed
    in asks for no import: who needs the object is handed it again.

    called: whether it is called with what the file says; a goal sees states alone, and need only be loaded.
    """
    if name.startswith(GIVEN) or ":" not in name:
        return
    module, _, attribute = name.rpartition(":")
    if module in os.environ.get("MEPOL_MODULES", "").split(","):
        return
    loaded = sys.modules.get(module)
    if loaded is None or (called and not _is_harmless(loaded, attribute)):
        raise RunError(
            f"{path} asks for {name!r}, which runs code of the module {module!r}; "
            f"if you trust it, say so with MEPOL_MODULES={module}"
        )


def _is_harmless(module: ModuleType, attribute: str) -> bool:
    """Whether a loaded module's attribute may be called because a file says so."""
    found = getattr(module, attribute, None)
    if isinstance(found, type):
        return issubclass(found, gymnasium.Env | VectorEnv)  # a wrapper is an environment
    return not callable(found) or (getattr(found, "__module__", None) == module.__name__ and _is_own(module))


def _is_own(module: ModuleType) -> bool:
    """Whether a module lies in a file of the user's; what is built in lies in none."""
    file = getattr(module, "__file__", None)
    foreign = [sys.prefix, site.getusersitepackages(), *sysconfig.get_paths().values(), str(OURS)]
    return file is not None and not any(Path(file).resolve().is_relative_to(Path(p).resolve()) for p in foreign)

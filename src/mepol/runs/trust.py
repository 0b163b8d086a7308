"""Which names in a stranger's file may be looked up and called: an import runs code, and so does a call.

What the user has named is the user's own: a run that is made remembers its names for this account, with the file that
they were found in, and whatever says the same name of the same file later is not asked about it.
"""

from __future__ import annotations

import json
import os
import site
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from mepol.errors import RunError
from mepol.runs.files import read_text
from mepol.settings import GIVEN

OURS = Path(__file__).parents[1]
"""Where this package lies."""
MOST_BYTES = 2**20  # of remembered names


def require_trusted(name: str, path: Path, *, called: bool = True) -> None:
    """Refuse a stored `module:name` that would run a stranger's choice of code.

    The environment variable MEPOL_MODULES lists trusted modules; names that `remember` has kept are trusted too. A
    module that is loaded already runs nothing by being imported; but what makes an environment is called, with
    arguments out of the same file, and `os:system` is loaded too. So a loaded module is trusted for environments,
    wrappers and registered ids, and for functions that make one only where it is the user's own: neither Python's, nor
    installed, nor ours. The name of an object that was handed in asks for no import: who needs the object is handed it
    again.

    called: whether it is called with what the file says; a goal sees states alone, and need only be loaded.
    """
    if name.startswith(GIVEN) or ":" not in name:
        return
    module, _, attribute = name.rpartition(":")
    if module in os.environ.get("MEPOL_MODULES", "").split(",") or _known(name) in _remembered():
        return
    loaded = sys.modules.get(module)
    if loaded is None or (called and not _is_harmless(loaded, attribute)):
        raise RunError(
            f"{path} asks for {name!r}, which runs code of the module {module!r}; "
            f"if you trust it, say so with MEPOL_MODULES={module}"
        )


def require_trusted_tables(tables: Iterable[Any], path: Path) -> None:
    """The same of every name of an environment or a wrapper in tables of settings, before anything is built of them."""
    for table in tables:
        for entry in ("env", "wrappers"):
            found = table.get(entry) if isinstance(table, dict) else None
            for name in found if isinstance(found, list) else [found]:
                if isinstance(name, str):
                    require_trusted(name, path)


def remember(names: Iterable[str]) -> None:
    """The user has named these: nobody asks about them again. An account that cannot be written to is asked again."""
    new = {_known(name) for name in names if ":" in name and not name.startswith(GIVEN)} - {""} - _remembered()
    with suppress(OSError):
        if new:
            _store().parent.mkdir(parents=True, exist_ok=True)
            with _store().open("a") as file:
                file.write("".join(f"{line}\n" for line in sorted(new)))


def _store() -> Path:
    """Where names are kept: a line each, in the place that the system has for what programs remember."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "mepol" / "named"


def _remembered() -> set[str]:
    with suppress(OSError, ValueError, RuntimeError):  # RuntimeError: nobody's home
        return set(read_text(_store(), MOST_BYTES).splitlines())
    return set()


def _known(name: str) -> str:
    """`name` with the file that it means here and now; empty where there is none. Nothing is imported."""
    module, _, attribute = name.rpartition(":")
    if module.endswith(".py"):
        file: str | None = str(Path(module).resolve())
        module = ""
    else:
        spec = PathFinder.find_spec(module.partition(".")[0], [str(Path.cwd()), *sys.path])
        file = spec.origin if spec else None
    return json.dumps([file, module, attribute]) if file else ""


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

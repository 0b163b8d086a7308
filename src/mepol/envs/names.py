"""What a name on the command line means: a registered id, one of a package that registers when imported, or a class.

    Pendulum-v1                      registered with Gymnasium
    FetchReach-v4                    of a package that is installed and has not been imported yet (NAMESPACES)
    my_module:MyEnv-v0               an id that `my_module` registers
    my_module:MyEnv                  a class, or a function that makes one, in `my_module`
    path/to/file.py:MyEnv            the same in a file

Modules in the working directory are found too. Importing runs a module's code: a name comes from the user, and one
that is stored in a run is refused unless its module is trusted (runs/directory.py).
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import io
import sys
import warnings
from collections.abc import Iterable
from contextlib import redirect_stderr
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium

from mepol.envs.coordinates import FILE_MODULE
from mepol.envs.offscreen import off_screen
from mepol.errors import EnvironmentFault, PackageNews
from mepol.settings import GIVEN


@dataclass(frozen=True)
class Namespace:
    """A package that registers environments when it is imported."""

    module: str
    install: str
    """What pip calls it."""
    starts: tuple[str, ...]
    """How its ids begin."""


NAMESPACES = (
    Namespace(
        "gymnasium_robotics",
        "gymnasium-robotics",
        ("Fetch", "HandManipulate", "HandReach", "PointMaze", "AntMaze", "AdroitHand", "FrankaKitchen"),
    ),
    Namespace("shimmy", "shimmy[dm-control]", ("dm_control/", "dm_control_multiagent/")),
    Namespace("ale_py", "ale-py", ("ALE/",)),
    Namespace("minigrid", "minigrid", ("MiniGrid-", "BabyAI-")),
    Namespace("highway_env", "highway-env", ("highway", "parking", "racetrack")),
    Namespace("panda_gym", "panda-gym", ("Panda",)),
    Namespace("metaworld", "metaworld", ("Meta-World/",)),
)


def resolve(name: str) -> Any:
    """What makes the environment called `name`: an id that Gymnasium knows now, a class or a function.

    EnvironmentFault, with what to do, where there is no such thing.
    """
    if name.startswith(GIVEN):
        shown = name.removeprefix(GIVEN)
        raise EnvironmentFault(f"the environment {shown!r} is an object that no file holds: hand it in again, env=...")
    module, colon, attribute = name.rpartition(":")
    if colon and module:
        return _from_module(module, attribute, name)
    if name not in gymnasium.registry:
        _import_namespace(name)
    if name not in gymnasium.registry:
        raise EnvironmentFault(f"no environment is called {name!r}; {advice(name)}")
    return name


def resolve_wrapper(name: str) -> type[gymnasium.Wrapper[Any, Any, Any, Any]]:
    """The class of wrappers called MODULE:CLASS or FILE.py:CLASS; EnvironmentFault where there is none.

    Nothing but a `gymnasium.Wrapper` is taken: no other callable is ever called because of its name.
    """
    module, _, attribute = name.rpartition(":")
    if not module:
        raise EnvironmentFault(f"the wrapper {name!r} needs a module: write MODULE:CLASS or FILE.py:CLASS")
    found = getattr(_loaded(module, name), attribute, None)
    if not isinstance(found, type) or not issubclass(found, gymnasium.Wrapper):
        raise EnvironmentFault(f"{module} has no wrapper {attribute!r}: it must be a class of gymnasium.Wrapper")
    return found


def is_known(name: str) -> bool:
    """Whether `name` can be resolved; a module that it names is imported."""
    try:
        resolve(name)
    except EnvironmentFault:
        return False
    return True


def advice(name: str, others: Iterable[str] = ()) -> str:
    """What a user may have meant by `name`: the nearest ids and `others`, a class in a file, a package to install."""
    if name.endswith(".py"):
        return f"a class in a file is written {name}:CLASS"
    for space in NAMESPACES:
        if name.startswith(space.starts) and importlib.util.find_spec(space.module) is None:
            return f"it may be one of {space.module}, which is not installed: pip install '{space.install}'"
    if near := nearest(name, others):
        return f"did you mean {' or '.join(repr(n) for n in near)}?"
    return (
        "an environment of your own is MODULE:ENV_ID, MODULE:CLASS or FILE.py:CLASS, "
        "so that the module that registers it is imported"
    )


def nearest(name: str, others: Iterable[str] = ()) -> list[str]:
    """At most two names that are much like `name`, whatever the case of letters and the version; `others` first."""
    known = {key.lower(): key for key in gymnasium.registry}
    bare = name.lower().rpartition("-v")[0] or name.lower()
    same = sorted((k for k in known if (k.rpartition("-v")[0] or k) == bare), key=_version, reverse=True)
    ids = same[:1] or get_close_matches(name.lower(), known, 1, cutoff=0.7)
    return [*get_close_matches(name.lower(), list(others), 1, cutoff=0.75), *(known[key] for key in ids)]


def _version(name: str) -> int:
    digits = name.rpartition("-v")[2]
    return int(digits) if digits.isdecimal() else -1


def _import_namespace(name: str) -> None:
    """Import the package that registers ids like `name`, where it is installed; its own faults are told."""
    for space in NAMESPACES:
        if name.startswith(space.starts) and importlib.util.find_spec(space.module) is not None:
            # Some choose how they draw, and print news of theirs, when they are imported.
            with off_screen(), redirect_stderr(io.StringIO()) as printed:
                module = _imported(space.module, name)
            if news := printed.getvalue().strip():
                warnings.warn_explicit(news, PackageNews, module.__file__ or space.module, 1)
            gymnasium.register_envs(module)  # importing it has registered them


def _from_module(module: str, attribute: str, name: str) -> Any:
    loaded = _loaded(module, name)
    found = getattr(loaded, attribute, None)
    if callable(found):
        return found
    if attribute in gymnasium.registry:
        return attribute
    own = [n for n, value in vars(loaded).items() if isinstance(value, type) and issubclass(value, gymnasium.Env)]
    near = get_close_matches(attribute, [*own, *gymnasium.registry], 1)
    hint = f"did you mean {near[0]!r}?" if near else f"its environments are {', '.join(own) or 'none'}"
    raise EnvironmentFault(f"{module} has no environment {attribute!r}, nor does it register one; {hint}")


def _loaded(module: str, name: str) -> ModuleType:
    return _from_file(Path(module), name) if module.endswith(".py") else _imported(module, name)


def _imported(module: str, name: str) -> ModuleType:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except Exception as fault:  # whatever the module's own code raises
        raise EnvironmentFault(f"cannot import {module!r} for {name!r}: {type(fault).__name__}: {fault}") from fault
    finally:
        sys.path.remove(here)


def _from_file(path: Path, name: str) -> ModuleType:
    """The module in a file, loaded once whatever it is called."""
    if not path.is_file():
        raise EnvironmentFault(f"cannot load {name!r}: there is no file {path}")
    key = f"{FILE_MODULE}{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    if key in sys.modules:
        return sys.modules[key]
    spec = importlib.util.spec_from_file_location(key, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module
    try:
        spec.loader.exec_module(module)
    except Exception as fault:
        del sys.modules[key]
        raise EnvironmentFault(f"{path} raised {type(fault).__name__} when it was loaded: {fault}") from fault
    return module

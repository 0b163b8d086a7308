"""Libraries that not everybody has."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mepol.errors import MepolError


def optional(module: str, extra: str) -> Any:
    """The module, or one sentence with the extra that brings it."""
    try:
        return import_module(module)
    except ImportError as fault:
        name = (fault.name or module).partition(".")[0]
        raise MepolError(f"this needs {name}, which is not installed: pip install 'mepol[{extra}]'") from fault

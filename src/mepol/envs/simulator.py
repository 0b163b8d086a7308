"""The one door to MuJoCo, which is optional: where it is missing it says so, and its import changes no variable."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from mepol.errors import EnvironmentFault

__all__ = ["mujoco", "platform_as_before"]


@contextmanager
def platform_as_before() -> Iterator[None]:
    """PYOPENGL_PLATFORM is as before after the block. MuJoCo sets it for the first import of OpenGL, which reads it."""
    before = os.environ.get("PYOPENGL_PLATFORM")
    try:
        yield
    finally:
        os.environ.pop("PYOPENGL_PLATFORM", None)
        if before is not None:
            os.environ["PYOPENGL_PLATFORM"] = before


try:
    with platform_as_before():
        import mujoco  # type: ignore[import-untyped]
except ImportError as fault:
    raise EnvironmentFault("this domain needs MuJoCo, which is not installed: pip install 'mepol[mujoco]'") from fault

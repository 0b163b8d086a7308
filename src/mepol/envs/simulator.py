"""The one door to MuJoCo, which is optional: where it is missing it says so, and its import changes no variable."""

from __future__ import annotations

from mepol.envs.offscreen import platform_as_before
from mepol.errors import EnvironmentFault

__all__ = ["mujoco"]


try:
    with platform_as_before():
        import mujoco  # type: ignore[import-untyped]
except ImportError as fault:
    raise EnvironmentFault("this domain needs MuJoCo, which is not installed: pip install 'mepol[mujoco]'") from fault

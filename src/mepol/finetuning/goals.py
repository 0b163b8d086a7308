"""Goals: pure functions of the state, (M, S) -> (M,) bool, true where the task is solved.

Coordinates are those of the domain's table (envs/gridworld.py, envs/ant.py, envs/humanoid.py). Where the paper and
the authors' release differ, the goal's own line says which is meant (docs/method/finetune.md lists them).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mepol.envs.batched import Array
from mepol.envs.coordinates import name_of
from mepol.errors import ConfigError, EnvironmentFault

Reached = NDArray[np.bool_]
Goal = Callable[[Array], Reached]

GRID_RADIUS = 0.1
ESCAPE_HEIGHT = 0.8  # metres, of every hip
HIP_OFFSET = 0.2  # metres: the hips lie at (+-0.2, +-0.2, 0) in the torso's frame
JUMP_HEIGHT = 3.0  # metres, of the torso
NAVIGATE_DISTANCE = 7.0  # metres
STAND_HEIGHT = 1.0  # metres, of the torso


def near(x: float, y: float, radius: float = GRID_RADIUS) -> Goal:
    """Goal "closer than `radius` to (x, y)" in the first two coordinates."""

    def goal(states: Array) -> Reached:
        return np.asarray(np.hypot(states[:, 0] - x, states[:, 1] - y) < radius)

    return goal


def ant_escape(states: Array) -> Reached:
    """All four hips at least 0.8 m high, and the torso the right way up.

    The hips lie in the torso's plane, so their heights follow from the torso's height and orientation alone. The
    release tests the heights only, which a body lying on its back on a high place would pass as well.
    """
    forward, left, up = world_z(states)
    lowest = states[:, 2] - HIP_OFFSET * (np.abs(forward) + np.abs(left))
    return np.asarray((lowest >= ESCAPE_HEIGHT) & (up > 0))


def ant_jump(states: Array) -> Reached:
    """Torso higher than 3 m."""
    return np.asarray(states[:, 2] > JUMP_HEIGHT)


def ant_navigate(states: Array) -> Reached:
    """Further than 7 m from the origin, which every start lies within 0.15 m of (the paper's rule)."""
    return np.asarray(np.hypot(states[:, 0], states[:, 1]) > NAVIGATE_DISTANCE)


def ant_navigate_x(states: Array) -> Reached:
    """x at least 7 m (the release's rule)."""
    return np.asarray(states[:, 0] >= NAVIGATE_DISTANCE)


def humanoid_up(states: Array) -> Reached:
    """Torso at least 1 m high."""
    return np.asarray(states[:, 2] >= STAND_HEIGHT)


def world_z(states: Array) -> tuple[Array, Array, Array]:
    """(M, S) states of a free body -> heights (M,) gained along its own x, y and z axes, a metre each.

    This is the bottom row of the rotation matrix of the quaternion in coordinates 3-6; the third entry is 1 for an
    upright body and -1 for one on its back.
    """
    w, x, y, z = (states[:, 3:7] / np.linalg.norm(states[:, 3:7], axis=1, keepdims=True)).T
    return 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)


def import_goal(name: str) -> Goal:
    """The function that `module:function` names; modules in the working directory are found too.

    Importing runs the module's code, so `name` must come from the user, never from a file.
    """
    module, _, function = name.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        goal = getattr(importlib.import_module(module), function)
    except Exception as fault:  # whatever the module's own code raises
        raise ConfigError(f"cannot import the goal {name!r}: {fault}; it must be module:function") from fault
    finally:
        sys.path.remove(here)
    if not callable(goal):
        raise ConfigError(f"the goal {name!r} is a {type(goal).__name__}, not a function of states (M, S)")
    found: Goal = goal
    return found


def judge(goal: Goal, states: Array) -> Reached:
    """(M,) where `goal` says that (M, S) states solve the task; one sentence where it says something else.

    The goal sees the states read-only: they are what the learner learns from.
    """
    seen = states.view()
    seen.flags.writeable = False
    try:
        reached = np.asarray(goal(seen))
    except Exception as fault:
        raise EnvironmentFault(f"the goal {name_of(goal)!r} raised {type(fault).__name__}: {fault}") from fault
    if reached.shape != states.shape[:1] or reached.dtype != np.bool_:
        raise EnvironmentFault(
            f"the goal {name_of(goal)!r} returned {reached.shape} {reached.dtype}, not ({len(states)},) truth values"
        )
    return reached

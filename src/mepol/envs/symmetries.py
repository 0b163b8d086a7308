"""The mirrors that an environment names: its attribute `symmetries`, a sequence of `mepol.algorithm.Symmetry`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mepol.algorithm.symmetry import Mirror, Symmetry, require_commuting
from mepol.envs.coordinates import told_by
from mepol.errors import EnvironmentFault

MOST = 8  # symmetries of an environment: a hidden layer has groups of 2 to that power


def symmetries_of(env: Any, state_dim: int, action_dim: int) -> tuple[Symmetry, ...]:
    """Those of `env`, none where it names none; EnvironmentFault where they do not fit its states and actions."""
    told = told_by(env, "symmetries")
    found = () if told is None else tuple(told) if isinstance(told, Sequence) else (told,)
    sizes = (state_dim, action_dim)
    fits = len(found) <= MOST and all(isinstance(one, Symmetry) for one in found)
    if not fits or any((len(one.states.index), len(one.actions.index)) != sizes for one in found):
        raise EnvironmentFault(
            f"the environment's symmetries must be at most {MOST} of mepol.algorithm.Symmetry, each with mirrors of "
            f"its {state_dim} state coordinates and {action_dim} actions"
        )
    require_commuting(found)
    return found


def reflection(
    states: tuple[str, ...], actions: tuple[str, ...], across: str, exchanged: dict[str, str], turned: tuple[str, ...]
) -> Symmetry:
    """A free body with hinges in a mirror that turns the axis `across`, x or y, of the plane.

    states: as `physics.free_body_names` has them; actions: names of the joints that they turn. exchanged: joints that
    change places; turned: those of all joints whose angle changes sign, wherever it goes. Vectors turn along the axis,
    rotations about the other two.
    """
    others = [axis for axis in "xyz" if axis != across]
    moved = {**exchanged, **{f"{a}_velocity": f"{b}_velocity" for a, b in exchanged.items()}}
    pose = {across, f"velocity_{across}", *(f"{turn}_{axis}" for turn in ("quat", "spin") for axis in others)}
    signs = pose | set(turned) | {f"{joint}_velocity" for joint in turned}
    return Symmetry(
        Mirror.of(states, exchanged=moved, turned=signs),
        Mirror.of(actions, exchanged=exchanged, turned=turned),
    )

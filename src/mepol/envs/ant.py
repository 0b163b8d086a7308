"""Ant: a four-legged body on an endless plane, as Gymnasium's Ant-v5 without its rewards and ends.

    coordinate  name                                   meaning
    0-2         x y z                                  position of the torso, metres
    3-6         quat_w quat_x quat_y quat_z            orientation of the torso, unit quaternion
    7-14        hip_1 ankle_1 .. hip_4 ankle_4         joint angles, radians
    15-17       velocity_x velocity_y velocity_z       of the torso, metres a second
    18-20       spin_x spin_y spin_z                   of the torso, in its own frame, radians a second
    21-28       hip_1_velocity .. ankle_4_velocity     radians a second

Actions are the 8 torques, each in [-1, 1], in the model's order: hip and ankle of leg 4, 1, 2, 3. A step lasts
0.05 s (5 physics steps). The start is the rest pose + U(-0.1, 0.1) on positions and 0.1 N(0, 1) on velocities,
drawn in Gymnasium's order: the same seed gives the same start. The plane is endless, so the entropy of the position
has no ceiling.
"""

from __future__ import annotations

import numpy as np

from mepol.envs.batched import Array, SingleEnv
from mepol.envs.physics import MujocoVectorEnv, free_body_names, load_spec
from mepol.envs.rendering import View
from mepol.envs.symmetries import reflection

JOINTS = ("hip_1", "ankle_1", "hip_2", "ankle_2", "hip_3", "ankle_3", "hip_4", "ankle_4")
FEATURE_NAMES = free_body_names(JOINTS)
ACTIONS = ("hip_4", "ankle_4", "hip_1", "ankle_1", "hip_2", "ankle_2", "hip_3", "ankle_3")
_HIPS, _ANKLES = JOINTS[::2], JOINTS[1::2]
SYMMETRIES = (  # legs 1 to 4 stand at (x, y) = (+, +), (-, +), (-, -), (+, -)
    reflection(
        FEATURE_NAMES,
        ACTIONS,
        "y",
        {"hip_1": "hip_4", "hip_2": "hip_3", "ankle_1": "ankle_4", "ankle_2": "ankle_3"},
        _HIPS,
    ),
    reflection(
        FEATURE_NAMES,
        ACTIONS,
        "x",
        {"hip_1": "hip_2", "hip_3": "hip_4", "ankle_1": "ankle_2", "ankle_3": "ankle_4"},
        (*_HIPS, *_ANKLES),
    ),
)
MODEL = "envs/mujoco/assets/ant.xml"
FRAME_SKIP = 5
NOISE = 0.1


class AntVectorEnv(MujocoVectorEnv):
    """M ants, each alone on its plane."""

    view = View(distance=6.0, track=1)
    symmetries = SYMMETRIES

    def __init__(self, num_envs: int = 1, render_mode: str | None = None, threads: int | None = None) -> None:
        model = load_spec("gymnasium", MODEL).compile()
        super().__init__(model, FEATURE_NAMES, FRAME_SKIP, num_envs=num_envs, render_mode=render_mode, threads=threads)

    def start(self, i: int, rng: np.random.Generator) -> None:
        """Near the rest pose, hardly moving."""
        self.place(i, *start_state(self.model.qpos0, rng))


def start_state(rest: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw (15,) positions around the pose `rest`, then (14,) velocities."""
    qpos: Array = rest + rng.uniform(-NOISE, NOISE, 15)
    return qpos, NOISE * rng.standard_normal(14)


def ant(render_mode: str | None = None) -> SingleEnv:
    """`mepol/Ant-v0` as a single environment."""
    return SingleEnv(AntVectorEnv(1, render_mode))

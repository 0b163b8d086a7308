"""Humanoid: a body with two legs and two arms on a plane, as Gymnasium's Humanoid-v5 without rewards and ends.

    coordinate  name                                   meaning
    0-2         x y z                                  position of the torso, metres
    3-6         quat_w quat_x quat_y quat_z            orientation of the torso, unit quaternion
    7-9         abdomen_z abdomen_y abdomen_x          joint angles, radians
    10-13       right_hip_x right_hip_z right_hip_y right_knee
    14-17       left_hip_x left_hip_z left_hip_y left_knee
    18-20       right_shoulder1 right_shoulder2 right_elbow
    21-23       left_shoulder1 left_shoulder2 left_elbow
    24-26       velocity_x velocity_y velocity_z       of the torso, metres a second
    27-29       spin_x spin_y spin_z                   of the torso, in its own frame, radians a second
    30-46       abdomen_z_velocity .. left_elbow_velocity, in the order of 7-23, radians a second

Actions are the 17 torques, each in [-0.4, 0.4], in the model's order (abdomen_y before abdomen_z, otherwise as
above). The paper says 20-D actions; the model, now and then, has 17. A step lasts 0.015 s (5 physics steps). The start
is the rest pose + U(-0.01, 0.01) on positions and velocities, drawn in Gymnasium's order: the same seed gives the
same start.
"""

from __future__ import annotations

import numpy as np

from mepol.envs.batched import SingleEnv
from mepol.envs.physics import MujocoVectorEnv, free_body_names, load_spec
from mepol.envs.rendering import View
from mepol.envs.symmetries import reflection

JOINTS = (
    *("abdomen_z", "abdomen_y", "abdomen_x"),
    *("right_hip_x", "right_hip_z", "right_hip_y", "right_knee"),
    *("left_hip_x", "left_hip_z", "left_hip_y", "left_knee"),
    *("right_shoulder1", "right_shoulder2", "right_elbow"),
    *("left_shoulder1", "left_shoulder2", "left_elbow"),
)
FEATURE_NAMES = free_body_names(JOINTS)
ACTIONS = ("abdomen_y", "abdomen_z", *JOINTS[2:])
_SIDES = {joint: joint.replace("right", "left") for joint in JOINTS if joint.startswith("right")}
_TURNED = ("abdomen_z", "abdomen_x", *(joint for joint in JOINTS if "shoulder" in joint))  # hips turn as they point
SYMMETRIES = (reflection(FEATURE_NAMES, ACTIONS, "y", _SIDES, _TURNED),)
MODEL = "envs/mujoco/assets/humanoid.xml"
FRAME_SKIP = 5
NOISE = 0.01


class HumanoidVectorEnv(MujocoVectorEnv):
    """M humanoids, each alone on its plane."""

    view = View(distance=5.0, elevation=-20.0, track=1)
    symmetries = SYMMETRIES

    def __init__(self, num_envs: int = 1, render_mode: str | None = None, threads: int | None = None) -> None:
        model = load_spec("gymnasium", MODEL).compile()
        super().__init__(model, FEATURE_NAMES, FRAME_SKIP, num_envs=num_envs, render_mode=render_mode, threads=threads)

    def start(self, i: int, rng: np.random.Generator) -> None:
        """Near the standing rest pose, hardly moving."""
        qpos = self.model.qpos0 + rng.uniform(-NOISE, NOISE, self.model.nq)
        self.place(i, qpos, rng.uniform(-NOISE, NOISE, self.model.nv))


def humanoid(render_mode: str | None = None) -> SingleEnv:
    """`mepol/Humanoid-v0` as a single environment."""
    return SingleEnv(HumanoidVectorEnv(1, render_mode))

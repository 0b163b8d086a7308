"""HandReach: the Shadow hand of gymnasium-robotics, without goals.

    coordinate  name                                   meaning
    0-1         WRJ1 WRJ0                              wrist angles, radians
    2-5         FFJ3 .. FFJ0                           forefinger, knuckle to tip
    6-9         MFJ3 .. MFJ0                           middle finger
    10-13       RFJ3 .. RFJ0                           ring finger
    14-18       LFJ4 .. LFJ0                           little finger
    19-23       THJ4 .. THJ0                           thumb
    24-47       WRJ1_velocity .. THJ0_velocity         in the order of 0-23, radians a second
    48-62       fftip_x fftip_y fftip_z, mftip, rftip, lftip, thtip   positions of the fingertips, metres

The state is the `observation` of gymnasium-robotics' HandReach. Like it, the fingertips are those at the beginning
of the last physics step (2 ms old). The 20 actions in [-1, 1] are target angles: -1 and 1 are the ends of each
actuator's range. A step lasts 0.04 s (20 physics steps). Every episode starts in the same pose.
"""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box

from mepol.envs.batched import Array, SingleEnv
from mepol.envs.physics import MujocoVectorEnv, load_spec
from mepol.envs.rendering import View

MODEL = "envs/assets/hand/reach.xml"
FRAME_SKIP = 20
# Start pose of gymnasium-robotics' HandReach, radians.
START = {
    "WRJ1": -0.16514339750464327,
    "WRJ0": -0.31973286565062153,
    "FFJ3": 0.14340512546557435,
    "FFJ2": 0.32028208333591573,
    "FFJ1": 0.7126053607727917,
    "FFJ0": 0.6705281001412586,
    "MFJ3": 0.000246444303701037,
    "MFJ2": 0.3152655251085491,
    "MFJ1": 0.7659800313729842,
    "MFJ0": 0.7323156897425923,
    "RFJ3": 0.00038520700007378114,
    "RFJ2": 0.36743546201985233,
    "RFJ1": 0.7119514095008576,
    "RFJ0": 0.6699446327514138,
    "LFJ4": 0.0525442258033891,
    "LFJ3": -0.13615534724474673,
    "LFJ2": 0.39872030433433003,
    "LFJ1": 0.7415570009679252,
    "LFJ0": 0.704096378652974,
    "THJ4": 0.003673823825070126,
    "THJ3": 0.5506291436028695,
    "THJ2": -0.014515151997119306,
    "THJ1": -0.0015229223564485414,
    "THJ0": -0.7894883021600622,
}
JOINTS = tuple(START)
FINGERTIPS = ("fftip", "mftip", "rftip", "lftip", "thtip")
FEATURE_NAMES = (
    *JOINTS,
    *(f"{joint}_velocity" for joint in JOINTS),
    *(f"{tip}_{axis}" for tip in FINGERTIPS for axis in "xyz"),
)


class HandReachVectorEnv(MujocoVectorEnv):
    """M hands, each on its own mount."""

    view = View(distance=0.5, azimuth=55.0, elevation=-25.0, lookat=(1.0, 0.96, 0.14))

    def __init__(self, num_envs: int = 1, render_mode: str | None = None, threads: int | None = None) -> None:
        model = load_spec("gymnasium_robotics", MODEL).compile()
        super().__init__(
            model,
            FEATURE_NAMES,
            FRAME_SKIP,
            num_envs=num_envs,
            render_mode=render_mode,
            threads=threads,
            action_space=Box(-1.0, 1.0, (model.nu,), np.float32),
        )
        self._tips = [model.site(f"robot0:S_{tip}").id for tip in FINGERTIPS]
        low, high = model.actuator_ctrlrange.T
        self._centre, self._reach = (high + low) / 2.0, (high - low) / 2.0
        self._start = np.array(list(START.values()))

    def start(self, i: int, rng: np.random.Generator) -> None:
        """The open hand, at rest."""
        self.place(i, self._start, np.zeros(len(JOINTS)))

    def control(self, actions: Array) -> Array:
        """(M, 20) in [-1, 1] -> target angles in each actuator's range."""
        low, high = self.model.actuator_ctrlrange.T
        return np.asarray(np.clip(self._centre + actions * self._reach, low, high))

    def read(self, i: int, state: Array) -> None:
        """Joint angles, joint velocities, then the fingertips."""
        super().read(i, state)
        state[48:] = self.data[i].site_xpos[self._tips].ravel()


def hand_reach(render_mode: str | None = None) -> SingleEnv:
    """`mepol/HandReach-v0` as a single environment."""
    return SingleEnv(HandReachVectorEnv(1, render_mode))

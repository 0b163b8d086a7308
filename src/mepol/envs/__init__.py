"""The paper's domains, registered with Gymnasium under `mepol/`."""

from __future__ import annotations

import gymnasium

# id: (single, vector). The modules are imported on first use, so that MuJoCo is not needed for the others.
_DOMAINS = {
    "mepol/GridWorld-v0": ("mepol.envs.gridworld:gridworld", "mepol.envs.gridworld:GridWorldVectorEnv"),
    "mepol/MountainCar-v0": ("mepol.envs.mountain_car:mountain_car", "mepol.envs.mountain_car:MountainCarVectorEnv"),
    "mepol/GridWorld200-v0": (
        "mepol.envs.gridworld_200d:gridworld_200d",
        "mepol.envs.gridworld_200d:GridWorld200VectorEnv",
    ),
    "mepol/Ant-v0": ("mepol.envs.ant:ant", "mepol.envs.ant:AntVectorEnv"),
    "mepol/AntMaze-v0": ("mepol.envs.ant_maze:ant_maze", "mepol.envs.ant_maze:AntMazeVectorEnv"),
    "mepol/Humanoid-v0": ("mepol.envs.humanoid:humanoid", "mepol.envs.humanoid:HumanoidVectorEnv"),
    "mepol/HandReach-v0": ("mepol.envs.hand_reach:hand_reach", "mepol.envs.hand_reach:HandReachVectorEnv"),
}


def register_domains() -> None:
    """Make the ids known to `gymnasium.make` and `gymnasium.make_vec`; calling it again changes nothing."""
    for name, (single, vector) in _DOMAINS.items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point=single, vector_entry_point=vector)

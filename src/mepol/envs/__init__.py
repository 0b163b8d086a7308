"""The paper's domains, registered with Gymnasium under `mepol/`."""

from __future__ import annotations

import gymnasium

_DOMAINS = {
    "mepol/GridWorld-v0": ("mepol.envs.gridworld:gridworld", "mepol.envs.gridworld:GridWorldVectorEnv"),
    "mepol/MountainCar-v0": ("mepol.envs.mountain_car:mountain_car", "mepol.envs.mountain_car:MountainCarVectorEnv"),
}


def register_domains() -> None:
    """Make the ids known to `gymnasium.make` and `gymnasium.make_vec`; calling it again changes nothing."""
    for name, (single, vector) in _DOMAINS.items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point=single, vector_entry_point=vector)

"""Explore with mepol, go on with Stable-Baselines3's own PPO: the exported model is where it starts.

python examples/continue_in_sb3.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3 import PPO

import mepol


def main(epochs: int = 5, steps: int = 20_000, **settings: Any) -> tuple[Any, Any]:
    """Pendulum explored for some epochs, then its own reward learnt; returns the explorer and the learner.

    settings: of the exploration, as `mepol.explore` takes them.
    """
    place = Path(tempfile.mkdtemp(prefix="mepol-example-"))
    wanted = {"horizon": 200, "hidden": (64, 64), **settings}
    run = mepol.explore("Pendulum-v1", epochs=epochs, out=place / "run", progress=False, **wanted)
    model_file, *_ = run.export("sb3-ppo", place / "explorer.zip")

    # The exploration acted in [-1, 1], whatever the torque's own range; so does the learner.
    env = gymnasium.wrappers.RescaleAction(gymnasium.make("Pendulum-v1"), np.float32(-1), np.float32(1))
    model = PPO.load(model_file, env=env, device="cpu", custom_objects={"n_steps": 1024, "gamma": 0.95})
    print("acts in units:", model.mepol["unit_actions"], "  noise correlation lost:", model.mepol["noise_correlation"])
    model.learn(steps)
    model.save(place / "learnt.zip")
    print(f"learnt: {place / 'learnt.zip'}")
    return run, model


if __name__ == "__main__":
    main()

"""What a run says of the mirrors that an environment of one's own names."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import mepol
from mepol.algorithm import Mirror, Symmetry
from mepol.errors import MepolWarning

SMALL: dict[str, Any] = {
    "epochs": 1,
    "horizon": 40,
    "trajectories": 12,
    "evaluation_trajectories": 2,
    "hidden": (16, 16),
    "progress": False,
    "threads": 1,
}


class Sledge(gymnasium.Env[Any, Any]):
    """x, y and two velocities, pushed by a left and a right dog that pull forward and outward."""

    feature_names = ("x", "y", "vx", "vy")
    symmetries = (Symmetry(Mirror.of(feature_names, turned={"y", "vy"}), Mirror((1, 0), (1, 1))),)
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self.np_random.normal(0, 0.1, 4)
        return self.state.astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        left, right = action
        self.state[2:] += 0.1 * np.array([left + right, left - right])
        self.state[:2] += 0.1 * self.state[2:]
        return self.state.astype(np.float32), 0.0, False, False, {}


class Muddled(Sledge):
    """The same, by somebody who forgot that the dogs change places."""

    symmetries = (Symmetry(Sledge.symmetries[0].states, Mirror((0, 1), (1, 1))),)


@pytest.mark.parametrize("explorer", ["mepol", "re3"])
def test_a_wrong_mirror_is_named_and_a_true_one_is_not(explorer: str, tmp_path: Path) -> None:
    with pytest.warns(MepolWarning, match=r"symmetry 1 of .*Muddled.* forecast of 'vy' .* leave symmetric off"):
        mepol.explore(Muddled, symmetric=True, explorer=explorer, out=tmp_path / "wrong", **SMALL)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MepolWarning)
        mepol.explore(Sledge, symmetric=True, explorer=explorer, out=tmp_path / "right", **SMALL)
        mepol.explore(Muddled, explorer=explorer, out=tmp_path / "unused", **SMALL)

"""Any environment with a goal: reward 1 and the end of the episode where it is reached, 0 elsewhere.

The environment's own rewards and ends are dropped, as in the paper; an episode that does not reach the goal is
truncated at the horizon.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from mepol.envs.batched import Array, BatchedEnv, Frame
from mepol.finetuning.episodes import EpisodesVectorEnv, Flags
from mepol.finetuning.goals import Goal, judge


class ReachVectorEnv(EpisodesVectorEnv):
    """M copies of a task: to reach `goal`."""

    def __init__(self, env: VectorEnv[Any, Any, Any], goal: Goal, horizon: int, *, time_limit: float = 0.0) -> None:
        super().__init__(env, horizon, time_limit=time_limit)
        self.goal = goal

    def outcome(
        self, states: Array, rewards: Any, terminated: Flags, truncated: Flags, call: str
    ) -> tuple[Array, Flags, Flags]:
        """The goal and the horizon alone end an episode."""
        reached = judge(self.goal, states)
        return reached.astype(np.float64), reached, np.zeros_like(reached)


class Reach(gymnasium.Env[Array, Array]):
    """One copy of a task as an ordinary Gymnasium environment: a batch of one.

    `base` draws its starts with the generator that this environment is seeded with.
    """

    def __init__(self, base: BatchedEnv, goal: Goal, horizon: int) -> None:
        self._base, self._task = base, ReachVectorEnv(base, goal, horizon)
        self.observation_space, self.action_space = base.single_observation_space, base.single_action_space
        self.render_mode, self.metadata = base.render_mode, base.metadata
        self.feature_names = base.feature_names

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start anew; `seed` fixes this and the following starts."""
        super().reset(seed=seed)
        self._base.reseed([self.np_random])
        states, info = self._task.reset(options=options)
        return states[0], info

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Move by `action` (A,)."""
        states, rewards, terminated, truncated, info = self._task.step(np.asarray(action)[None])
        ends = bool(terminated[0]), bool(truncated[0])
        return states[0], float(rewards[0]), *ends, {key: value[0] for key, value in info.items()}

    def render(self) -> Frame | None:
        """(height, width, 3) one frame, or None without a render mode."""
        frames = self._base.render()
        return frames[0] if frames else None

    def close(self) -> None:
        """Free what the batch holds."""
        self._base.close()

"""Any environment with a goal: reward 1 and the end of the episode where it is reached, 0 elsewhere.

The environment's own rewards and ends are dropped, as in the paper; an episode that does not reach the goal is
truncated at the horizon. A simulation that diverges is truncated where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from mepol.envs.batched import Array, BatchedEnv, Frame
from mepol.envs.coordinates import feature_names
from mepol.errors import EnvironmentFault
from mepol.finetuning.goals import Goal

Flags = NDArray[np.bool_]


class ReachVectorEnv(VectorEnv[Array, Array, Array]):
    """M copies of a task. `base` must not reset itself and must take `options={"reset_mask": (M,) bool}`."""

    def __init__(self, base: VectorEnv[Any, Any, Any], goal: Goal, horizon: int) -> None:
        if base.metadata.get("autoreset_mode") is not AutoresetMode.DISABLED:
            raise EnvironmentFault("a task needs an environment that does not reset itself (AutoresetMode.DISABLED)")
        self.base, self.goal, self.horizon = base, goal, horizon
        self.num_envs, self.render_mode, self.metadata = base.num_envs, base.render_mode, base.metadata
        self.observation_space, self.action_space = base.observation_space, base.action_space
        self.single_observation_space = base.single_observation_space
        self.single_action_space = base.single_action_space
        self.feature_names = feature_names(base, base.single_observation_space.shape[0])  # type: ignore[index]
        self._age = np.zeros(base.num_envs, dtype=np.int64)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start anew, or only those of `options={"reset_mask": (M,) bool}`."""
        states, info = self.base.reset(seed=seed, options=options)  # type: ignore[arg-type]
        self._age[(options or {}).get("reset_mask", slice(None))] = 0
        return states, info

    def step(self, actions: Array) -> tuple[Array, Array, Flags, Flags, dict[str, Any]]:  # type: ignore[override]
        """Move by (M, A) actions; `terminated` where the goal is reached, `truncated` where time is up instead."""
        states, _, _, _, info = self.base.step(actions)
        self._age += 1
        reached = self.goal(states)
        late = self._age >= self.horizon
        if "diverged" in info:
            reached = reached & ~info["diverged"]  # a diverged state is the one before: it was judged then
            late = late | info["diverged"]
        return states, reached.astype(np.float64), reached, late & ~reached, info

    def render(self) -> Any:
        """One frame a sub-environment, or None without a render mode."""
        return self.base.render()

    def close_extras(self, **kwargs: Any) -> None:
        """Free what the environment holds."""
        self.base.close()


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

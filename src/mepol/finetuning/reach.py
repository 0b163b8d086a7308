"""Any environment with a goal: reward 1 and the end of the episode where it is reached, 0 elsewhere.

The environment's own rewards and ends are dropped, as in the paper; an episode that does not reach the goal is
truncated at the horizon. A simulation that diverges is truncated where it stopped. What the environment gives is
checked as in exploration (envs/contract.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from mepol.envs.batched import Array, BatchedEnv, Frame
from mepol.envs.contract import (
    check_actions,
    check_diverged,
    check_ends,
    check_observations,
    check_same_spaces,
    check_spaces,
    guard,
)
from mepol.envs.coordinates import feature_names
from mepol.errors import EnvironmentFault
from mepol.finetuning.goals import Goal, judge

Flags = NDArray[np.bool_]


class ReachVectorEnv(VectorWrapper[Array, Array, Any, Any, Array]):
    """M copies of a task. `env` must not reset itself and must take `options={"reset_mask": (M,) bool}`.

    horizon:    steps of an episode that does not reach the goal.
    time_limit: seconds that one call of the environment may take, 0 for no limit.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], goal: Goal, horizon: int, *, time_limit: float = 0.0) -> None:
        super().__init__(env)
        if env.metadata.get("autoreset_mode") is not AutoresetMode.DISABLED:
            raise EnvironmentFault("a task needs an environment that does not reset itself (AutoresetMode.DISABLED)")
        self._spaces = check_spaces(env)
        self._shape = (env.num_envs, *self._spaces[0].shape)
        self.goal, self.horizon, self.time_limit = goal, horizon, time_limit
        self.feature_names = feature_names(env, self._shape[1])
        self._age = np.zeros(env.num_envs, dtype=np.int64)
        self._steps = 0  # since all were last started

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start anew, or only those of `options={"reset_mask": (M,) bool}`."""
        mask = (options or {}).get("reset_mask")
        if mask is None:
            check_same_spaces(self.env, self._spaces[0], self._spaces[1].shape)
        given = None if options is None else dict(options)  # Gymnasium's own batches take the mask out of it
        with guard("reset", self.time_limit):
            states, info = self.env.reset(seed=seed, options=given)  # type: ignore[arg-type]
        states = check_observations(states, self._shape, "reset")
        self._age[slice(None) if mask is None else mask] = 0
        self._steps = 0 if mask is None else self._steps
        return states, info

    def step(self, actions: Array) -> tuple[Array, Array, Flags, Flags, dict[str, Any]]:  # type: ignore[override]
        """Move by (M, A) actions; `terminated` where the goal is reached, `truncated` where time is up instead."""
        call = f"step {self._steps}"
        check_actions(actions, call, remedy="a lower learning rate or a smaller trust region")
        with guard(call, self.time_limit):
            states, _, terminated, truncated, info = self.env.step(actions)
        states = check_observations(states, self._shape, call)
        check_ends(terminated, truncated, self.num_envs, call)  # the goal and the horizon alone end an episode
        diverged = check_diverged(info, self.num_envs, call)
        self._age += 1
        self._steps += 1
        reached = judge(self.goal, states)
        late = self._age >= self.horizon
        if diverged is not None:
            reached = reached & ~diverged  # a diverged state is the one before: it was judged then
            late = late | diverged
        return states, reached.astype(np.float64), reached, late & ~reached, info


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

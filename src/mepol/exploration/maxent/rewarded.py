"""An environment as MaxEnt's learner sees it: rewards from a function, episodes of a fixed length, inputs scaled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from mepol.envs.batched import Array
from mepol.envs.contract import (
    check_observations,
    check_spaces,
    checked_step,
    guard,
)

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class RewardedVectorEnv(VectorWrapper[Array, Array, Array, Array, Array]):
    """All sub-environments start together and are cut together after `horizon` steps, as a time limit.

    reward: (M, S) next states -> (M,) rewards; the environment's own are never read. Its ends are ignored, as in
    exploration; a simulation that diverged earns nothing until the next start. What it gives is checked as everywhere
    (envs/contract.py).
    shift, scale: (S,) observations are handed on as (s - shift) / scale; rewards see the raw states.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        horizon: int,
        reward: Callable[[Floats], Floats],
        *,
        shift: Floats,
        scale: Floats,
        time_limit: float = 0.0,
    ) -> None:
        super().__init__(env)
        self._shape = (env.num_envs, *check_spaces(env)[0].shape)
        self.single_observation_space = Box(-np.inf, np.inf, shift.shape, np.float64)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self._horizon, self._reward, self._time_limit = horizon, reward, time_limit
        self._shift, self._scale = shift, scale
        self._t = 0

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Start all: a `reset_mask` among the options is of all or none, since they end together."""
        assert np.all((options or {}).get("reset_mask", True))
        self._t = 0
        with guard("reset", self._time_limit):
            states, info = self.env.reset(seed=seed)
        return self._seen(check_observations(states, self._shape, "reset")), info

    def step(self, actions: Array) -> tuple[Floats, Floats, Flags, Flags, dict[str, Any]]:  # type: ignore[override]
        """Step all and pay for the states they reached; `truncated` when the horizon is over, never `terminated`."""
        call = f"step {self._t}"
        remedy = "a smaller trust region (trpo_kl)"
        states, _, _, _, diverged, info = checked_step(
            self.env.step, actions, self._shape, call, remedy=remedy, time_limit=self._time_limit
        )
        self._t += 1
        rewards = np.array(self._reward(np.asarray(states, dtype=np.float64)))  # a copy: it may be a column of theirs
        if diverged is not None:
            rewards[diverged] = 0.0
        over = np.full(self.num_envs, self._t >= self._horizon)
        return self._seen(states), rewards, np.zeros_like(over), over, info

    def _seen(self, states: NDArray[Any]) -> Floats:
        seen: Floats = (np.asarray(states, dtype=np.float64) - self._shift) / self._scale
        return seen

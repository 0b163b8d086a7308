"""A gymnasium VectorEnv as Stable-Baselines3 wants one: rewards from a function, episodes of a fixed length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mepol.envs.contract import check_spaces, guard
from mepol.sb3.library import BatchVecEnv


class RewardedVecEnv(BatchVecEnv):
    """All sub-environments start together and are cut together after `horizon` steps, as a time limit.

    reward: (M, S) next states -> (M,) rewards; the environment's own are never read. Its ends are ignored, as in
    exploration; a simulation that diverged earns nothing until the next start.
    shift, scale: (S,) observations are handed on as (s - shift) / scale; rewards see the raw states.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        horizon: int,
        reward: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        *,
        shift: NDArray[np.float64],
        scale: NDArray[np.float64],
        time_limit: float = 0.0,
    ) -> None:
        self.env, self._horizon, self._reward = env, horizon, reward
        self._shift, self._scale, self._time_limit = shift, scale, time_limit
        self._t = 0
        self._actions: NDArray[np.float32] | None = None
        super().__init__(env.num_envs, Box(-np.inf, np.inf, shift.shape, np.float32), check_spaces(env)[1])

    def reset(self) -> NDArray[np.float32]:
        """Start all; with the seeds of `seed` where they are new."""
        seeds: Any = None if None in self._seeds else list(self._seeds)
        self._reset_seeds()
        self._t = 0
        with guard("reset", self._time_limit):
            obs, _ = self.env.reset(seed=seeds)
        return self._seen(obs)

    def step_async(self, actions: NDArray[np.float32]) -> None:
        """Remember the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Step all, pay for the states they reached, and start again when the horizon is over."""
        with guard(f"step {self._t}", self._time_limit):
            states, _, _, _, info = self.env.step(self._actions)
        self._t += 1
        rewards = self._reward(np.asarray(states, dtype=np.float64)).astype(np.float32)
        if "diverged" in info:
            rewards[np.asarray(info["diverged"], dtype=bool)] = 0.0
        seen = self._seen(states)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        over = self._t >= self._horizon
        if over:
            infos = [{"terminal_observation": last, "TimeLimit.truncated": True} for last in seen]
            seen = self.reset()
        return seen, rewards, np.full(self.num_envs, over), infos

    def close(self) -> None:
        """Nothing: whoever made the environment closes it."""

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Fix the starts from the next reset on."""
        words = np.random.SeedSequence(seed).generate_state(self.num_envs)
        self._seeds = [int(word) for word in words]
        return self._seeds

    def _seen(self, states: Any) -> NDArray[np.float32]:
        scaled: NDArray[np.float32] = ((np.asarray(states) - self._shift) / self._scale).astype(np.float32)
        return scaled

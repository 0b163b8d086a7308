"""Our vector environments as Stable-Baselines3's VecEnv: one batched step, finished episodes restarted in one call.

Nothing is copied per sub-environment but what Stable-Baselines3 asks for at the end of an episode, so collection
runs at the speed of the batch (benchmarks/finetune_speed.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mepol.errors import EnvironmentFault
from mepol.sb3.library import VecEnv

Floats = NDArray[np.float32]
Info = dict[str, Any]


@dataclass(frozen=True)
class Episode:
    """One finished episode."""

    reward: float
    """Sum of its rewards."""
    length: int
    """Steps."""
    success: bool
    """Whether it ended in the goal."""
    first: bool
    """Whether it began at a reset of all, so that nothing but its own end could have cut it short."""


class BatchedVecEnv(VecEnv):
    """M sub-environments behind one object. `env` must not reset itself and must take a `reset_mask`.

    Observations are float32, which is what Stable-Baselines3 computes with. `episodes` gathers what has finished
    since it was last emptied. Asked about single sub-environments, all M share the batch's answer.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        space = env.single_observation_space
        if not isinstance(space, Box):
            raise EnvironmentFault(f"reinforcement learning needs a Box observation space, not {space}")
        self.env = env
        self.render_mode = None
        self.episodes: list[Episode] = []
        self.states: Floats = np.zeros((env.num_envs, *space.shape), dtype=np.float32)  # (M, S) where all stand
        low, high = space.low.astype(np.float32), space.high.astype(np.float32)
        super().__init__(env.num_envs, Box(low, high, dtype=np.float32), env.single_action_space)
        self._actions = np.zeros((env.num_envs, *(env.single_action_space.shape or ())), dtype=np.float32)
        self._nothing: Info = {}
        self._forget()

    def restart(self, seeds: Sequence[int]) -> Floats:
        """Start all M from their seeds, as if newly made; episodes under way are dropped."""
        return self._start(list(seeds))

    def reset(self) -> Floats:
        """Start all M; from the seeds given to `seed`, if any."""
        seeds = self._seeds if any(s is not None for s in self._seeds) else None
        self._reset_seeds()
        return self._start(seeds)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Floats, Floats, NDArray[np.bool_], list[Info]]:
        """Step all; where an episode ended, the observation is the next one's start and the info has the last."""
        states, rewards, terminated, truncated, _ = self.env.step(self._actions)
        states = np.asarray(states, dtype=np.float32)
        rewards = np.asarray(rewards, dtype=np.float32)
        self._return += rewards
        self._length += 1
        done = np.asarray(terminated | truncated, dtype=bool)
        infos = [self._nothing] * self.num_envs
        if done.any():
            for i in np.flatnonzero(done):
                infos[i] = {"terminal_observation": states[i], "TimeLimit.truncated": bool(truncated[i])}
                ended = Episode(float(self._return[i]), int(self._length[i]), bool(terminated[i]), bool(self._first[i]))
                self.episodes.append(ended)
            starts, _ = self.env.reset(options={"reset_mask": done})
            states = np.where(done[:, None], starts, states).astype(np.float32)
            self._return[done] = self._length[done] = 0
            self._first[done] = False
        self.states = states
        return states, rewards, done, infos

    @property
    def starts(self) -> NDArray[np.bool_]:
        """(M,) whether each stands at the start of an episode."""
        new: NDArray[np.bool_] = self._length == 0
        return new

    def take_episodes(self) -> list[Episode]:
        """Hand over the finished episodes and begin a new list."""
        taken, self.episodes = self.episodes, []
        return taken

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The batch's attribute, once a sub-environment."""
        return [getattr(self.env, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refused: the sub-environments have no attributes of their own."""
        raise EnvironmentFault(f"a batched environment has no sub-environments to set {attr_name!r} on")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Refused: the sub-environments have no methods of their own."""
        raise EnvironmentFault(f"a batched environment has no sub-environments to call {method_name!r} on")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Never: wrappers go around the batch."""
        return [False] * len(list(self._get_indices(indices)))

    def _start(self, seeds: Sequence[int | None] | None) -> Floats:
        states, _ = self.env.reset(seed=seeds)  # type: ignore[arg-type]
        self._forget()
        self.states = np.asarray(states, dtype=np.float32)
        return self.states

    def _forget(self) -> None:
        self._return = np.zeros(self.num_envs)
        self._length = np.zeros(self.num_envs, dtype=np.int64)
        self._first = np.ones(self.num_envs, dtype=bool)

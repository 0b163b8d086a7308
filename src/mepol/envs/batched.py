"""One way to be an environment: step a whole batch at once. A single environment is a batch of one.

A domain subclasses `BatchedEnv` with three methods: where one sub-environment starts, how all of them move, how
one looks. `SingleEnv` turns the same object into an ordinary `gymnasium.Env`, so that each domain's dynamics
are written once.

None of these domains ends an episode by itself: `terminated` is always false, and `truncated` too unless a
simulation diverges, as the paper's exploration wants. The goal-based tasks add their own ends.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from mepol.errors import EnvironmentFault

Array = NDArray[np.float64]
Frame = NDArray[np.uint8]
Step = tuple[Array, Array, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]
"""What a step gives: observations (M, S), rewards, terminated and truncated (M,), info."""


class BatchedEnv(VectorEnv[Array, Array, Array]):
    """Base of the native vector environments. States are (M, S) float64.

    feature_names: one name a state coordinate, in order.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "autoreset_mode": AutoresetMode.DISABLED,
        "render_modes": ["rgb_array"],
        "render_fps": 30,
    }
    feature_names: tuple[str, ...]

    def __init__(self, num_envs: int, space: Box, action_space: Box, render_mode: str | None = None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise EnvironmentFault(f"render_mode = {render_mode!r} is not possible: it must be None or 'rgb_array'")
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space, self.single_action_space = space, action_space
        self.observation_space = batch_space(space, num_envs)
        self.action_space = batch_space(action_space, num_envs)
        self._rngs = [np.random.default_rng() for _ in range(num_envs)]

    @abstractmethod
    def start(self, i: int, rng: np.random.Generator) -> None:
        """Put sub-environment i in a start state drawn with `rng`."""

    @abstractmethod
    def advance(self, actions: Array) -> None:
        """Move every sub-environment by its row of `actions` (M, A), already clipped to the action space."""

    @abstractmethod
    def observe(self) -> Array:
        """(M, S) the present states, in an array that later steps leave alone."""

    @abstractmethod
    def picture(self, i: int) -> Frame:
        """(height, width, 3) sub-environment i as seen from outside."""

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start sub-environment i from seed[i] (or seed + i). `options={"reset_mask": (M,) bool}` resets some only."""
        if isinstance(seed, int | np.integer):
            seed = [int(seed) + i for i in range(self.num_envs)]
        if seed is not None:
            self.reseed([None if s is None else np.random.default_rng(s) for s in seed])
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, dtype=bool))
        for i in np.flatnonzero(mask):
            self.start(int(i), self._rngs[i])
        return self.observe(), {}

    def reseed(self, rngs: Sequence[np.random.Generator | None]) -> None:
        """Give sub-environment i the generator rngs[i]; None keeps the one it has."""
        if len(rngs) != self.num_envs:
            raise EnvironmentFault(f"{len(rngs)} seeds for {self.num_envs} environments")
        self._rngs = [new or old for new, old in zip(rngs, self._rngs, strict=True)]

    def step(self, actions: Array) -> Step:  # type: ignore[override]
        """Clip (M, A) actions to the action space and move; the reward is always 0."""
        self.advance(self.clip(actions))
        never = np.zeros(self.num_envs, dtype=bool)
        return self.observe(), np.zeros(self.num_envs), never, never.copy(), {}

    def clip(self, actions: Array) -> Array:
        """(..., A) actions as float64, brought into the action space."""
        box = self.single_action_space
        assert isinstance(box, Box)
        return np.clip(np.asarray(actions, dtype=np.float64), box.low, box.high)

    def render(self) -> tuple[Frame, ...] | None:
        """One frame a sub-environment, or None without a render mode."""
        return tuple(self.picture(i) for i in range(self.num_envs)) if self.render_mode else None


class DivisibleEnv(BatchedEnv):
    """A batch that can also be stepped in parts, by threads of the caller.

    threads: how many threads it is meant to be stepped by.
    """

    threads: int

    @property
    @abstractmethod
    def divisible(self) -> bool:
        """Whether `step_rows` does what `step` does."""

    @abstractmethod
    def step_rows(self, rows: slice, actions: Array) -> Step:
        """Step the sub-environments start .. stop of `rows` alone by (R, A) actions; what returns is theirs, as of
        `step`. Different threads may step different rows at the same time.
        """


class SingleEnv(gymnasium.Env[Array, Array]):
    """A batch of one as an ordinary Gymnasium environment."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 30}  # type: ignore[misc]

    def __init__(self, batch_of_one: BatchedEnv) -> None:
        self._batch = batch_of_one
        self.observation_space = batch_of_one.single_observation_space
        self.action_space = batch_of_one.single_action_space
        self.render_mode = batch_of_one.render_mode
        self.metadata = batch_of_one.metadata  # type: ignore[misc]
        self.feature_names = batch_of_one.feature_names

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start anew; `seed` fixes this and the following starts."""
        super().reset(seed=seed)
        self._batch.reseed([self.np_random])
        states, info = self._batch.reset(options=options)
        return states[0], info

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Move by `action` (A,); the reward is always 0."""
        states, rewards, terminated, truncated, info = self._batch.step(np.asarray(action)[None])
        return (
            states[0],
            float(rewards[0]),
            bool(terminated[0]),
            bool(truncated[0]),
            {key: value[0] for key, value in info.items()},
        )

    def render(self) -> Frame | None:
        """(height, width, 3) one frame, or None without a render mode."""
        frames = self._batch.render()
        return frames[0] if frames else None

    def close(self) -> None:
        """Free what the batch holds."""
        self._batch.close()

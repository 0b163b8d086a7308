"""Any environment as episodes that a learner is paid in: each ends by its own rule, or is cut at the horizon.

What the environment gives is checked as in exploration (envs/contract.py). A simulation that diverges is cut where it
stopped, and earns nothing there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from mepol.envs.batched import Array
from mepol.envs.choices import choices_of
from mepol.envs.contract import (
    check_observations,
    check_same_spaces,
    check_spaces,
    checked_step,
    guard,
)
from mepol.envs.coordinates import feature_names
from mepol.errors import EnvironmentFault

Flags = NDArray[np.bool_]


class EpisodesVectorEnv(VectorWrapper[Array, Array, Any, Any, Array]):
    """M copies of a task. `env` must not reset itself and must take `options={"reset_mask": (M,) bool}`.

    horizon:    steps of an episode that does not end before.
    time_limit: seconds that one call of the environment may take, 0 for no limit.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], horizon: int, *, time_limit: float = 0.0) -> None:
        super().__init__(env)
        if env.metadata.get("autoreset_mode") is not AutoresetMode.DISABLED:
            raise EnvironmentFault("a task needs an environment that does not reset itself (AutoresetMode.DISABLED)")
        self._spaces = check_spaces(env)
        self._shape = (env.num_envs, *self._spaces[0].shape)
        self.horizon, self.time_limit = horizon, time_limit
        self.feature_names = feature_names(env, self._shape[1])
        self._age = np.zeros(env.num_envs, dtype=np.int64)
        self._steps = 0  # since all were last started

    @abstractmethod
    def outcome(
        self, states: Array, rewards: Any, terminated: Flags, truncated: Flags, call: str
    ) -> tuple[Array, Flags, Flags]:
        """(M,) what a step earns, whose episode ends there, and whose is cut: of what the environment said."""

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start anew, or only those of `options={"reset_mask": (M,) bool}`."""
        mask = (options or {}).get("reset_mask")
        if mask is None:
            check_same_spaces(self.env, self._spaces[0], self._spaces[1].shape, choices_of(self._spaces[1]))
        given = None if options is None else dict(options)  # Gymnasium's own batches take the mask out of it
        with guard("reset", self.time_limit):
            states, info = self.env.reset(seed=seed, options=given)  # type: ignore[arg-type]
        states = check_observations(states, self._shape, "reset")
        self._age[slice(None) if mask is None else mask] = 0
        self._steps = 0 if mask is None else self._steps
        return states, info

    def step(self, actions: Array) -> tuple[Array, Array, Flags, Flags, dict[str, Any]]:  # type: ignore[override]
        """Move by (M, A) actions; `terminated` where an episode ends by its own rule, `truncated` where it is cut."""
        call = f"step {self._steps}"
        remedy = "a lower learning rate or a smaller trust region"
        states, paid, terminated, truncated, diverged, info = checked_step(
            self.env.step, actions, self._shape, call, remedy=remedy, time_limit=self.time_limit
        )
        self._age += 1
        self._steps += 1
        rewards, ended, cut = self.outcome(states, paid, terminated, truncated, call)
        late = cut | (self._age >= self.horizon)
        if diverged is not None:  # a diverged state is the one before: it was judged then
            rewards, ended, late = np.where(diverged, 0.0, rewards), ended & ~diverged, late | diverged
        return states, rewards, ended, late & ~ended, info


class OwnRewardVectorEnv(EpisodesVectorEnv):
    """Paid as the environment itself pays, in episodes that end where its own do."""

    def outcome(
        self, states: Array, rewards: Any, terminated: Flags, truncated: Flags, call: str
    ) -> tuple[Array, Flags, Flags]:
        """All of it as the environment says, once its rewards are numbers."""
        paid = np.asarray(rewards)
        if paid.shape != (self.num_envs,) or paid.dtype.kind not in "biuf":
            raise EnvironmentFault(
                f"the environment's {call} returned rewards {paid.shape} {paid.dtype}, not ({self.num_envs},) numbers"
            )
        paid = paid.astype(np.float64)
        if not np.isfinite(paid).all():
            raise EnvironmentFault(
                f"environment {int(np.argmin(np.isfinite(paid)))} paid a NaN or infinite reward at {call}; "
                "repair or wrap it"
            )
        return paid, terminated, truncated

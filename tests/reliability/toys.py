"""A healthy walk in the plane, and every way in which it can go wrong on request.

TOY_FAULT="kind:reset:step" (both counted from 1, step 0 is the reset itself) makes one sub-environment misbehave.
"""

from __future__ import annotations

import os
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

SINGLE, VECTOR = "toy/Walk-v0", "toy/Walks-v0"
LASTING = ("shrink", "coincide")


def register() -> None:
    gymnasium.register(SINGLE, entry_point=Walk, disable_env_checker=True)
    gymnasium.register(VECTOR, entry_point=Walk, vector_entry_point=Walks, disable_env_checker=True)


def fault(resets: int, step: int) -> str:
    """The kind of fault due now, or nothing; `shrink` and `coincide` last, the others strike once."""
    kind, at_reset, at_step = (os.environ.get("TOY_FAULT") or "none:0:0").split(":")
    now = (resets, step) >= (int(at_reset), 0) if kind in LASTING else (resets, step) == (int(at_reset), int(at_step))
    return kind if now else ""


class Walk(gymnasium.Env[Any, Any]):
    """One walker; sub-environments of a batch all misbehave at once."""

    def __init__(self, render_mode: str | None = None) -> None:
        self.observation_space = Box(-50.0, 50.0, (2,), np.float64)
        self.action_space = Box(-1.0, 1.0, (2,), np.float32)
        self.resets = self.steps = 0
        if fault(0, 0) == "construction":
            raise OSError("no licence")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.resets, self.steps = self.resets + 1, 0
        self.place = self.np_random.uniform(-1, 1, 2)
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.place = np.clip(self.place + 0.2 * np.clip(action, -1, 1), -50, 50)
        odd = {"nan reward": np.nan, "infinite reward": np.inf}
        return self.seen(), odd.get(fault(self.resets, self.steps), 0.0), False, False, {}

    def seen(self) -> Any:
        kind = fault(self.resets, self.steps)
        if kind == "raise":
            raise ZeroDivisionError("the wheel came off")
        if kind == "hang":
            time.sleep(1e9)
        spoilt = {
            "nan": self.place * np.nan,
            "inf": self.place + np.inf,
            "shape": np.zeros(3),
            "dtype": np.array(["left", "right"]),
            "shrink": self.place * 1e-7,
        }
        return spoilt.get(kind, self.place.copy())


class Walks(VectorEnv[Any, Any, Any]):
    """M walkers, natively batched."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012

    def __init__(self, num_envs: int = 1, render_mode: str | None = None) -> None:
        self.num_envs = num_envs
        self.single_observation_space = Box(-50.0, 50.0, (2,), np.float64)
        self.single_action_space = Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.resets = self.steps = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.resets, self.steps = self.resets + 1, 0
        self.place = np.stack([np.random.default_rng(s).uniform(-1, 1, 2) for s in seed])
        return self.seen(), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self.steps += 1
        self.place = np.clip(self.place + 0.2 * np.clip(actions, -1, 1), -50, 50)
        kind = fault(self.resets, self.steps)
        rewards = np.full(self.num_envs, {"nan reward": np.nan, "infinite reward": np.inf}.get(kind, 0.0))
        ends = np.zeros(self.num_envs + (kind == "ends"), dtype=bool)
        return self.seen(), rewards, ends, ends.copy(), {}

    def seen(self) -> Any:
        kind = fault(self.resets, self.steps)
        places = self.place.copy()
        if kind == "nan":
            places[1, 0] = np.nan
        elif kind == "inf":
            places[2, 1] = -np.inf
        elif kind == "coincide":
            places[:] = 0.0
        elif kind == "observation space":
            self.single_observation_space = Box(-1.0, 1.0, (2,), np.float64)
        elif kind == "action space":
            self.single_action_space = Box(-1.0, 1.0, (5,), np.float32)
        elif kind == "shrink":
            places *= 1e-7
        spoilt = {"shape": places[:, :1], "dtype": places.astype(str), "complex": places * 1j, "object": None}
        return spoilt.get(kind, places)

"""A healthy walk in the plane, and every way in which it can go wrong on request.

TOY_FAULT="kind:reset:step" (both counted from 1, step 0 is the reset itself) makes one sub-environment misbehave.
FAULTS is what both phases are tried with, in batches of four and horizons of 24 steps.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

SINGLE, VECTOR = "toy/Walk-v0", "toy/Walks-v0"
LASTING = ("shrink", "coincide")
REWARDS = {"nan reward": np.nan, "infinite reward": np.inf}


def far(states: np.ndarray) -> np.ndarray:
    """A goal that no walk of a test reaches, and that infinity would."""
    return np.asarray(np.abs(states).max(axis=1) > 45.0)


@dataclass(frozen=True)
class Fault:
    """One way to go wrong, in or after a reset of the environment, and the sentence that names it."""

    env: str
    kind: str
    step: int  # after the reset, counted from 1; 0: the reset itself
    message: str  # how it begins; LIMIT stands for the time limit
    reset: int = 4  # the fourth begins an epoch, and an iteration of every learner

    def __str__(self) -> str:
        return f"{self.env.split('/')[1]} {self.spec()}"

    def sentence(self, limit: float) -> str:
        """What is said of it where a call may take `limit` seconds."""
        return self.message.replace("LIMIT", f"{limit:g}")

    def spec(self, reset: int | None = None) -> str:
        """The value of TOY_FAULT."""
        return f"{self.kind}:{self.reset if reset is None else reset}:{self.step}"


FAULTS = (
    Fault(SINGLE, "raise", 5, "the environment's step 4 raised ZeroDivisionError: the wheel came off"),
    Fault(SINGLE, "raise", 0, "the environment's reset raised ZeroDivisionError: the wheel came off"),
    Fault(SINGLE, "hang", 5, "the environment's step 4 took longer than the time limit of LIMIT s"),
    Fault(SINGLE, "hang", 0, "the environment's reset took longer than the time limit of LIMIT s"),
    Fault(SINGLE, "nan", 5, "environment 0 returned a NaN or infinite observation at step 4; repair or wrap it"),
    Fault(SINGLE, "inf", 5, "environment 0 returned a NaN or infinite observation at step 4; repair or wrap it"),
    Fault(SINGLE, "inf", 0, "environment 0 returned a NaN or infinite observation at reset; repair or wrap it"),
    Fault(SINGLE, "shape", 5, "the step of Walk returned an observation of shape (3,)"),
    Fault(SINGLE, "dtype", 5, "the environment's step 4 raised"),
    Fault(VECTOR, "nan", 24, "environment 1 returned a NaN or infinite observation at step 23"),
    Fault(VECTOR, "inf", 5, "environment 2 returned a NaN or infinite observation at step 4"),
    Fault(VECTOR, "shape", 5, "the environment's step 4 returned observations (4, 1) float64, not (4, 2) real numbers"),
    Fault(VECTOR, "shape", 0, "the environment's reset returned observations (4, 1) float64, not (4, 2) real numbers"),
    Fault(VECTOR, "dtype", 5, "the environment's step 4 returned observations (4, 2) <U32, not (4, 2) real numbers"),
    Fault(VECTOR, "complex", 5, "the environment's step 4 returned observations (4, 2) complex128, not (4, 2) real"),
    Fault(VECTOR, "object", 5, "the environment's step 4 returned observations () object, not (4, 2) real numbers"),
    Fault(VECTOR, "ends", 5, "the environment's step 4 returned ends (5,), not (4,) truth values"),
    Fault(VECTOR, "observation space", 5, "the environment changed its observation space to Box(-1.0, 1.0, (2,)"),
    Fault(VECTOR, "action space", 5, "the environment changed its action space to Box(-1.0, 1.0, (5,)"),
)
HARMLESS = tuple(
    Fault(env, kind, 5, "") for env in (SINGLE, VECTOR) for kind in ("nan reward", "infinite reward", "end")
)
"""An environment's own rewards are never read, and its own ends are not those of an episode."""


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
        kind = fault(self.resets, self.steps)
        return self.seen(), REWARDS.get(kind, 0.0), kind == "end", False, {}

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
        self.drawing = [np.random.default_rng() for _ in range(num_envs)]
        self.resets = self.steps = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.resets, self.steps = self.resets + 1, 0
        if seed is not None:
            self.drawing = [np.random.default_rng(s) for s in seed]
        starts = np.stack([rng.uniform(-1, 1, 2) for rng in self.drawing])
        mask = (options or {}).get("reset_mask")
        self.place = starts if mask is None else np.where(mask[:, None], starts, self.place)
        return self.seen(), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self.steps += 1
        self.place = np.clip(self.place + 0.2 * np.clip(actions, -1, 1), -50, 50)
        kind = fault(self.resets, self.steps)
        rewards = np.full(self.num_envs, REWARDS.get(kind, 0.0))
        ends = np.full(self.num_envs + (kind == "ends"), kind == "end")
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
        spoilt = {
            "shape": places[:, :1],
            "dtype": places.astype(str),
            "complex": places.astype(complex),
            "object": None,
        }
        return spoilt.get(kind, places)

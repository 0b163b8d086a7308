"""Any gymnasium VectorEnv + something that acts + one seed -> a Batch."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from mepol.batch import Batch
from mepol.errors import EnvironmentFault


class Actor(Protocol):
    """What sampling needs of a policy."""

    def act(
        self, obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[np.float32]:
        """(M, S) observations -> (M, A) actions."""
        ...


def collect(actor: Actor, env: VectorEnv[Any, Any, Any], horizon: int, *, seed: np.random.SeedSequence) -> Batch:
    """One trajectory of `horizon` steps from each of the M sub-environments.

    `seed` fixes the start states and the action noise; sub-environment m draws its start from the m-th word of
    the seed, so that how many neighbours it has does not matter to it.

    Termination is ignored, as in the paper, wherever the environment allows: it goes on from the terminal state.
    An environment that resets itself (any autoreset mode but DISABLED) ends its trajectory there instead, and
    the batch carries the shorter length.
    """
    space, actions_space = _box(env.single_observation_space, "observation"), check_action_space(env)
    m = env.num_envs
    reset_seed, noise_seed = seed.spawn(2)
    rng = np.random.default_rng(noise_seed)
    resets_itself = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP) is not AutoresetMode.DISABLED

    states = np.zeros((m, horizon + 1, *space.shape))
    actions = np.zeros((m, horizon, *actions_space.shape), dtype=np.float32)
    lengths = np.full(m, horizon, dtype=np.int64)
    alive = np.ones(m, dtype=bool)

    seeds: Any = [int(word) for word in reset_seed.generate_state(m)]  # VectorEnv takes a list, its types say int
    obs, _ = env.reset(seed=seeds)
    states[:, 0] = _shaped(obs, (m, *space.shape))
    for t in range(horizon):
        actions[:, t] = actor.act(obs, rng)
        obs, _, terminated, truncated, info = env.step(actions[:, t])
        states[:, t + 1] = _shaped(obs, (m, *space.shape))
        if resets_itself:
            ended = alive & (terminated | truncated)
            for i in np.flatnonzero(ended):
                lengths[i] = t + 1
                if "final_obs" in info:  # SAME_STEP: obs is already the next trajectory's start
                    states[i, t + 1] = info["final_obs"][i]
            alive &= ~ended
            if not alive.any():
                break
    return Batch(states, actions, lengths)


def check_action_space(env: VectorEnv[Any, Any, Any]) -> Box:
    """The Box of one sub-environment's actions, or an EnvironmentFault that says what is there instead."""
    return _box(env.single_action_space, "action")


def _box(space: Any, what: str) -> Box:
    if not isinstance(space, Box) or len(space.shape) != 1:
        raise EnvironmentFault(
            f"the {what} space is {space}, and mepol needs a one-dimensional Box; wrap the environment to give one"
        )
    return space


def _shaped(obs: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    array = np.asarray(obs)
    if array.shape != shape or not np.issubdtype(array.dtype, np.number):
        raise EnvironmentFault(
            f"the environment returned observations {array.shape} {array.dtype}, not {shape} numbers"
        )
    return array.astype(np.float64, copy=False)

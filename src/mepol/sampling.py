"""Any gymnasium VectorEnv + something that acts + one seed -> a Batch."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from mepol.batch import Batch
from mepol.errors import CollapseError, EnvironmentFault, MepolWarning


class Actor(Protocol):
    """What sampling needs of a policy."""

    def act(
        self, obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[np.float32]:
        """(M, S) observations -> (M, A) actions."""
        ...


@runtime_checkable
class Episodic(Protocol):
    """An actor that decides something once a trajectory."""

    def begin(self, m: int, rng: np.random.Generator) -> Actor:
        """What acts in the next M trajectories."""
        ...


def collect(
    actor: Actor,
    env: VectorEnv[Any, Any, Any],
    horizon: int,
    *,
    seed: np.random.SeedSequence,
    time_limit: float = 0.0,
) -> Batch:
    """One trajectory of `horizon` steps from each of the M sub-environments.

    `seed` fixes the start states and the action noise; sub-environment m draws its start from the m-th word of
    the seed, so that how many neighbours it has does not matter to it.

    Termination is ignored, as in the paper, wherever the environment allows: it goes on from the terminal state.
    An environment that resets itself (any autoreset mode but DISABLED) ends its trajectory there instead, and
    the batch carries the shorter length. So does a simulation that reports `info["diverged"]`: its trajectory ends
    at its last good state, with a warning, and the others go on. One that diverges in its very first step keeps
    its start as its only particle, because a trajectory needs one.

    Whatever else the environment does wrong is an EnvironmentFault: an exception of its own, a wrong shape, a NaN,
    or a call that takes longer than `time_limit` seconds (0: no limit).
    """
    space, actions_space = check_spaces(env)
    m = env.num_envs
    reset_seed, noise_seed = seed.spawn(2)
    rng = np.random.default_rng(noise_seed)
    resets_itself = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP) is not AutoresetMode.DISABLED

    states = np.zeros((m, horizon + 1, *space.shape))
    actions = np.zeros((m, horizon, *actions_space.shape), dtype=np.float32)
    lengths = np.full(m, horizon, dtype=np.int64)
    alive = np.ones(m, dtype=bool)

    seeds: Any = [int(word) for word in reset_seed.generate_state(m)]  # VectorEnv takes a list, its types say int
    with guard("reset", time_limit):
        obs, _ = env.reset(seed=seeds)
    states[:, 0] = obs = _checked(obs, (m, *space.shape), alive, "reset")
    if isinstance(actor, Episodic):
        actor = actor.begin(m, rng)
    for t in range(horizon):
        actions[:, t] = _finite(actor.act(obs, rng), alive, t)
        with guard(f"step {t}", time_limit):
            obs, _, terminated, truncated, info = env.step(actions[:, t])  # the reward is never read
            ended = np.asarray(terminated, dtype=bool) | np.asarray(truncated, dtype=bool)
        states[:, t + 1] = obs = _checked(obs, (m, *space.shape), alive, f"step {t}", ended)
        if "diverged" in info:
            broken = alive & np.asarray(info["diverged"], dtype=bool)
            for i in np.flatnonzero(broken):
                lengths[i] = max(t, 1)
                reason = info["warning"][i] if "warning" in info else "no reason given"
                text = f"environment {i} diverged at step {t + 1} ({reason}): its trajectory is cut there"
                warnings.warn(text, MepolWarning, stacklevel=2)
            alive &= ~broken
        if resets_itself:
            for i in np.flatnonzero(alive & ended):
                lengths[i] = t + 1
                if "final_obs" in info:  # SAME_STEP: obs is already the next trajectory's start
                    with guard(f"step {t}", time_limit):
                        states[i, t + 1] = info["final_obs"][i]
            alive &= ~ended
        if not alive.any():
            break
    return Batch(states, actions, lengths)


@contextmanager
def guard(call: str, time_limit: float) -> Iterator[None]:
    """Names what the environment's own code raises, and ends a call that hangs.

    The limit needs the main thread and its alarm signal; elsewhere it is not enforced.
    """
    limited = time_limit > 0 and threading.current_thread() is threading.main_thread()

    def too_late(*_: object) -> None:
        raise EnvironmentFault(f"the environment's {call} took longer than the time limit of {time_limit:g} s")

    if limited:
        before = signal.signal(signal.SIGALRM, too_late)
        signal.setitimer(signal.ITIMER_REAL, time_limit)
    try:
        yield
    except EnvironmentFault:
        raise
    except Exception as fault:
        raise EnvironmentFault(f"the environment's {call} raised {type(fault).__name__}: {fault}") from fault
    finally:
        if limited:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)


def _finite(actions: NDArray[np.float32], alive: NDArray[np.bool_], t: int) -> NDArray[np.float32]:
    bad = alive & ~np.isfinite(actions).all(axis=-1)
    if bad.any():
        raise CollapseError(
            f"the policy gave environment {int(np.argmax(bad))} a NaN or infinite action at step {t}; "
            "start again with a lower learning_rate or kl_threshold"
        )
    return actions


def check_spaces(env: VectorEnv[Any, Any, Any]) -> tuple[Box, Box]:
    """The Boxes of one sub-environment's observations and actions, or an EnvironmentFault that says what is there."""
    return _box(env.single_observation_space, "observation"), _box(env.single_action_space, "action")


def _box(space: Any, what: str) -> Box:
    if not isinstance(space, Box) or len(space.shape) != 1:
        raise EnvironmentFault(
            f"the {what} space is {space}, and mepol needs a one-dimensional Box; wrap the environment to give one"
        )
    return space


def _checked(
    obs: Any,
    shape: tuple[int, ...],
    alive: NDArray[np.bool_],
    call: str,
    ended: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """(M, S) observations as float64, or an EnvironmentFault naming the call and the environment at fault."""
    array = np.asarray(obs)
    if array.shape != shape or array.dtype.kind not in "iuf":
        raise EnvironmentFault(
            f"the environment's {call} returned observations {array.shape} {array.dtype}, not {shape} real numbers"
        )
    if ended is not None and ended.shape != shape[:1]:
        raise EnvironmentFault(f"the environment's {call} returned ends {ended.shape}, not {shape[:1]} truth values")
    bad = alive & ~np.isfinite(array).all(axis=-1)
    if bad.any():
        raise EnvironmentFault(
            f"environment {int(np.argmax(bad))} returned a NaN or infinite observation at {call}; repair or wrap it"
        )
    return array.astype(np.float64, copy=False)

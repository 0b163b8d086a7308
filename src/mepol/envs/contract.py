"""What an environment must keep, and the checks that name every break of it, in one sentence, for both phases.

Observations are (M, S) finite real numbers in a one-dimensional Box, ends (M,) truth values, actions such a Box too or
discrete (choices.py); no call raises, and none takes longer than a time limit. What an environment may do: report
`info["diverged"]` (M,) for simulations that stopped at their last good state.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from gymnasium.spaces import Box, MultiDiscrete
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mepol.envs.choices import choices_of, space_of
from mepol.errors import CollapseError, EnvironmentFault


@contextmanager
def guard(call: str, time_limit: float = 0.0) -> Iterator[None]:
    """Names what the environment's own code raises, and ends a call that takes longer than `time_limit` s (0: none).

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


def check_spaces(env: VectorEnv[Any, Any, Any]) -> tuple[Box, Box | MultiDiscrete]:
    """Observations and actions of one sub-environment, or an EnvironmentFault that says what is there.

    Discrete actions of any kind are told as (A,) whole numbers from 0.
    """
    choices = choices_of(env.single_action_space)
    observations = _box(env.single_observation_space, "observation", "a one-dimensional Box")
    if choices is not None:
        return observations, space_of(choices)
    return observations, _box(env.single_action_space, "action", "a one-dimensional Box or discrete actions")


def _box(space: Any, what: str, needed: str) -> Box:
    if not isinstance(space, Box) or len(space.shape) != 1:
        raise EnvironmentFault(
            f"the {what} space is {space}, and mepol needs {needed}; wrap the environment to give it"
        )
    return space


def check_observations(
    obs: Any, shape: tuple[int, ...], call: str, *, alive: NDArray[np.bool_] | None = None, first: int = 0
) -> NDArray[Any]:
    """Observations of `shape` (R, S) as an array of real numbers, finite in every row that is `alive` (R,), or in all.

    first: number of the sub-environment in row 0.
    """
    array = _array(obs)
    if array.shape != shape or array.dtype.kind not in "iuf":
        raise EnvironmentFault(
            f"the environment's {call} returned observations {array.shape} {array.dtype}, not {shape} real numbers"
        )
    bad = _first_bad(array, alive)
    if bad is not None:
        raise EnvironmentFault(
            f"environment {first + bad} returned a NaN or infinite observation at {call}; repair or wrap it"
        )
    return array


def check_ends(terminated: Any, truncated: Any, m: int, call: str) -> NDArray[np.bool_]:
    """(M,) whose episode ended, either way."""
    return _flags(terminated, m, call, "ends") | _flags(truncated, m, call, "ends")


def check_diverged(info: Any, m: int, call: str) -> NDArray[np.bool_] | None:
    """(M,) which simulations `info` says have diverged, or None where it says nothing of that."""
    if not isinstance(info, dict):
        raise EnvironmentFault(f"the environment's {call} returned {type(info).__name__} for info, not a dict")
    return _flags(info["diverged"], m, call, "divergences") if "diverged" in info else None


def _flags(flags: Any, m: int, call: str, what: str) -> NDArray[np.bool_]:
    array = _array(flags)
    if array.shape != (m,) or array.dtype.kind not in "biuf":
        raise EnvironmentFault(f"the environment's {call} returned {what} {array.shape}, not {(m,)} truth values")
    return array.astype(bool, copy=False)


def _array(values: Any) -> NDArray[Any]:
    """`values` as an array; rows of unlike lengths become one of objects, which no check lets pass."""
    try:
        return np.asarray(values)
    except ValueError:
        return np.asarray(None)


def check_actions(
    actions: NDArray[Any], call: str, *, alive: NDArray[np.bool_] | None = None, first: int = 0, remedy: str
) -> NDArray[Any]:
    """Actions (R, A) that an environment may be given: a CollapseError names a policy that has none left."""
    bad = _first_bad(actions, alive)
    if bad is not None:
        raise CollapseError(
            f"the policy gave environment {first + bad} a NaN or infinite action at {call}; start again with {remedy}"
        )
    return actions


def _first_bad(rows: NDArray[Any], alive: NDArray[np.bool_] | None) -> int | None:
    """The first living row that is not finite."""
    finite = np.isfinite(rows)
    if finite.all():  # nearly always, and then this is all that is spent on it
        return None
    bad = ~finite.all(axis=-1) if alive is None else alive & ~finite.all(axis=-1)
    return int(np.argmax(bad)) if bad.any() else None

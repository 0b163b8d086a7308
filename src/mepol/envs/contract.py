"""What an environment must keep, and the checks that name every break of it, in one sentence, for both phases.

Observations are (M, S) finite real numbers in a one-dimensional Box, ends (M,) truth values, actions such a Box too or
discrete (choices.py); no call raises, and none takes longer than a time limit. What an environment may do: report
`info["diverged"]` (M,) for simulations that stopped at their last good state.
"""

from __future__ import annotations

import signal
import site
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, MultiDiscrete
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mepol.envs.choices import Choices, choices_of, space_of
from mepol.errors import CollapseError, EnvironmentFault


@contextmanager
def guard(call: str, time_limit: float = 0.0) -> Iterator[None]:
    """Names what the environment's own code raises, and where; ends a call that takes over `time_limit` s (0: none).

    What was raised stays the `__cause__` of what is told. The limit needs the main thread and its alarm
    signal; elsewhere it is not enforced.
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
        raise EnvironmentFault(f"the environment's {call} {told(call, fault)}") from fault
    finally:
        if limited:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)


# --- What was raised, in a sentence ---------------------------------------------------------------------------------

LIBRARIES = tuple(
    Path(place).resolve()
    for place in (
        str(Path(__file__).parents[1]),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    )
)
"""Folders whose files are not the user's own code."""
OLD = "Gymnasium's environments have done since 0.26; wrap one of the older kind with Shimmy's GymV21CompatibilityV0"
RETURNS = {
    "reset": f"must take seed= and options=, and return (observation, info), as {OLD}",
    "step": f"must return (observation, reward, terminated, truncated, info), as {OLD}",
}
"""What each call has to give back: for environments that were written for Gym."""
UNPACKED = ("values to unpack", "cannot unpack", "unexpected keyword argument 'seed'")
"""How Python says that something else was given back."""


def told(call: str, fault: Exception) -> str:
    """What an environment's own code did in `call`, from the exception that came of it."""
    returned, place = RETURNS.get(call.partition(" ")[0]), own_line(fault)
    if returned and place is None and any(words in str(fault) for words in UNPACKED):
        return f"{returned} ({fault})"
    words = f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__
    return f"raised {words}" + (f" ({place})" if place else "")


def own_line(fault: BaseException) -> str | None:
    """File and line of the user's own code in which `fault` was raised, the innermost; None where no such code was."""
    for frame in reversed(traceback.extract_tb(fault.__traceback__)):
        path = Path(frame.filename)
        if path.is_file() and not any(path.resolve().is_relative_to(place) for place in LIBRARIES):
            return f"{frame.filename}, line {frame.lineno}, in {frame.name}"
    return None


# --- What it gave back ----------------------------------------------------------------------------------------------


class Shaped(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A single environment that is held to what its calls give back, so that a batch of them can be put together.

    The numbers are looked at once a batch (`check_observations`), not here.
    """

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Start anew."""
        found: Any = self.env.reset(**options)
        self._require(found, 2, "reset")
        return found  # type: ignore[no-any-return]

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step."""
        found: Any = self.env.step(action)
        self._require(found, 5, "step")
        return found  # type: ignore[no-any-return]

    def _require(self, found: Any, size: int, call: str) -> None:
        """EnvironmentFault unless `found` has `size` parts and begins with an observation of the space's shape."""
        name = type(self.env.unwrapped).__name__
        if not isinstance(found, tuple) or len(found) != size or not isinstance(found[-1], dict):
            raise EnvironmentFault(f"the {call} of {name} {RETURNS[call]}")
        obs, wanted = found[0], self.observation_space.shape  # None of a Dict, whose parts are taken by name
        if wanted is not None and getattr(obs, "shape", None) != wanted and (shape := _array(obs).shape) != wanted:
            raise EnvironmentFault(
                f"the {call} of {name} returned an observation of shape {shape}, "
                f"and its observation space has {wanted}: make them agree"
            )


def check_spaces(env: VectorEnv[Any, Any, Any]) -> tuple[Box, Box | MultiDiscrete]:
    """Observations and actions of one sub-environment, or an EnvironmentFault that says what is there.

    Discrete actions of any kind are told as (A,) whole numbers from 0.
    """
    if not hasattr(env, "single_observation_space"):
        raise EnvironmentFault(
            f"a batch of environments is needed, not a {type(env).__name__}: gymnasium.make_vec makes one"
        )
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
    if not space.shape[0]:
        raise EnvironmentFault(f"the {what} space {space} has no coordinate: give it one")
    return space


def check_same_spaces(
    env: VectorEnv[Any, Any, Any], observations: Box, action_shape: tuple[int, ...], choices: Choices | None = None
) -> None:
    """EnvironmentFault where the environment is no longer what it was when the run began."""
    if env.single_observation_space != observations:
        raise EnvironmentFault(f"the environment changed its observation space to {env.single_observation_space}")
    if env.single_action_space.shape != action_shape or choices_of(env.single_action_space) != choices:
        raise EnvironmentFault(f"the environment changed its action space to {env.single_action_space}")


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


class Stepped(NamedTuple):
    """What a step of R environments gave, checked; of the rewards nothing is checked."""

    obs: NDArray[Any]
    """(R, S)."""
    rewards: Any
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    """(R,) each."""
    diverged: NDArray[np.bool_] | None
    """(R,) which simulations stopped at their last good state; None where the environment says nothing of that."""
    info: dict[str, Any]


def checked_step(
    step: Callable[[NDArray[Any]], tuple[Any, ...]],
    actions: NDArray[Any],
    shape: tuple[int, ...],
    call: str,
    *,
    remedy: str,
    time_limit: float = 0.0,
    alive: NDArray[np.bool_] | None = None,
    first: int = 0,
) -> Stepped:
    """One step by (R, A) actions to observations of `shape` (R, S): both phases look at all of it in one way."""
    check_actions(actions, call, alive=alive, first=first, remedy=remedy)
    with guard(call, time_limit):
        obs, rewards, terminated, truncated, info = step(actions)
    obs = check_observations(obs, shape, call, alive=alive, first=first)
    ends = _flags(terminated, shape[0], call, "ends"), _flags(truncated, shape[0], call, "ends")
    return Stepped(obs, rewards, *ends, _diverged(info, shape[0], call), info)


def _diverged(info: Any, m: int, call: str) -> NDArray[np.bool_] | None:
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

"""The only factory of environments: from an id, a class or a function to a batch, or to a single one for pictures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from mepol.envs.choices import counted, counted_single
from mepol.envs.contract import Shaped, guard
from mepol.envs.coordinates import name_of
from mepol.envs.names import resolve, resolve_wrapper
from mepol.envs.pixels import Painted, Seen, shown
from mepol.envs.spaces import fitted
from mepol.envs.unending import Unending, quiet
from mepol.errors import EnvironmentFault

Vector = VectorEnv[Any, Any, Any]
Single = gymnasium.Env[Any, Any]
Makes = str | type[Single] | type[Vector] | Callable[[], Single] | Callable[[int], Vector]
"""A Gymnasium id, an environment's class, a factory () -> Env, or a function n -> VectorEnv of n."""


def make_env(
    what: Makes,
    num_envs: int,
    *,
    kwargs: Mapping[str, Any] | None = None,
    ignore_termination: bool = True,
    time_limit: float = 0.0,
    threads: int = 0,
    autoreset: AutoresetMode = AutoresetMode.NEXT_STEP,
    unit_actions: bool = True,
    wrappers: Sequence[str] = (),
    seen: Seen = "state",
) -> Vector:
    """`num_envs` copies of an environment in one batch.

    what:      a Gymnasium id (native where it has a vector entry point), a `gymnasium.Env` class, a factory () -> Env,
               or a function n -> VectorEnv. A function that needs an argument besides `kwargs` is one of n; one that
               needs none is a factory.
    kwargs:    handed to what makes the environment.
    ignore_termination: hide the ends of single environments, time limits too; what comes as a VectorEnv is left as
               it is.
    time_limit: seconds that making may take (0: no limit).
    threads:   of environments that step on several (0: as many as they like).
    unit_actions: single environments take actions in [-1, 1] where theirs are a bounded Box (spaces.py).
    autoreset: how a batch of single environments starts anew where an episode ended; native batches have their own.
    wrappers:  classes of wrappers, MODULE:CLASS, the innermost first; they go around single environments, so that
               with any of them a registered id is made of these even where it has a native batch.

    seen:      what observations show: as they are, or rows of pictures (pixels.py).

    Discrete actions of any kind are (M, A) whole numbers from 0 in what returns (choices.py).
    """
    name, options = name_of(what), dict(kwargs or {})
    around = _Wrapping(wrappers)

    def fit(env: Single) -> Single:
        native = env.spec is not None and _is_native(env.spec)  # wrapped, it keeps its own units
        env = fitted(shown(Shaped(around(env)), seen), unit_actions=unit_actions and not native)
        return Unending(env) if ignore_termination else env

    with guard(f"construction as {name!r}", time_limit), quiet():
        what = resolve(what) if isinstance(what, str) else what
        if isinstance(what, str):
            made = _registered(what, num_envs, options, threads, autoreset, fit, alone=bool(wrappers))
            painted = seen == "pixels" and not wrappers and _is_native(gymnasium.spec(what))
            return counted(Painted(made) if painted else made)
        if not _wants_number(what, options):
            return counted(_in_turn(what, num_envs, options, autoreset, fit))  # type: ignore[arg-type]
        if wrappers:
            raise EnvironmentFault(f"{name!r} makes batches, and {wrappers[0]!r} wraps a single environment")
        make: Callable[..., Any] = what
        env = make(num_envs, **_with_threads(what, options, threads))
    if not isinstance(env, VectorEnv):
        raise EnvironmentFault(f"{name!r} is a function of n: it must return a VectorEnv, not a {type(env).__name__}")
    if env.num_envs != num_envs:
        raise EnvironmentFault(f"{name!r} returned {env.num_envs} environments, not the {num_envs} it was asked for")
    return counted(env)


def make_single(
    what: Makes,
    kwargs: Mapping[str, Any] | None = None,
    render_mode: str | None = None,
    *,
    unit_actions: bool = True,
    wrappers: Sequence[str] = (),
    seen: Seen = "state",
) -> Single:
    """One environment that draws in `render_mode`; the rest as in `make_env`."""
    name, options = name_of(what), dict(kwargs or {})
    around = _Wrapping(wrappers)
    with guard(f"construction as {name!r}"), quiet():
        what = resolve(what) if isinstance(what, str) else what
        if isinstance(what, str):
            env = gymnasium.make(what, render_mode=render_mode, disable_env_checker=True, **options)
            native = _is_native(gymnasium.spec(what))  # a batch of one, in its own units
            return counted_single(fitted(shown(around(env), seen), unit_actions=unit_actions and not native))
        if _wants_number(what, options):
            raise EnvironmentFault(f"{name!r} makes batches: a single environment needs an id, a class or () -> Env")
        if render_mode is not None and _takes(what, "render_mode"):
            options["render_mode"] = render_mode
        env = _single(what, options)  # type: ignore[arg-type]
    if render_mode is not None and env.render_mode != render_mode:
        raise EnvironmentFault(f"{name!r} does not draw {render_mode!r}: give it a parameter render_mode")
    return counted_single(fitted(shown(around(env), seen), unit_actions=unit_actions))


def limit_of(what: Makes, kwargs: Mapping[str, Any] | None = None) -> int | None:
    """Steps after which an environment itself cuts an episode; None where it does not, or where it cannot be asked."""
    if isinstance(what, str) and isinstance(found := resolve(what), str):
        steps = gymnasium.spec(found).max_episode_steps
    else:
        try:
            env = make_single(what, kwargs)
        except EnvironmentFault:  # a function of n, say: whoever makes the batch will name what is wrong
            return None
        steps = getattr(env.spec, "max_episode_steps", None)
        if steps is None and env.has_wrapper_attr("_max_episode_steps"):
            steps = env.get_wrapper_attr("_max_episode_steps")
        env.close()
    return steps if isinstance(steps, int) and steps > 0 else None


# --- How each is made -----------------------------------------------------------------------------------------------


def _registered(
    env_id: str,
    num_envs: int,
    options: dict[str, Any],
    threads: int,
    autoreset: AutoresetMode,
    fit: Callable[[Single], Single],
    *,
    alone: bool,
) -> Vector:
    """alone: of single environments, even where there is a native batch."""
    spec = gymnasium.spec(env_id)
    entry = spec.vector_entry_point
    if entry is not None and _is_native(spec) and not alone:
        creator = load_env_creator(entry) if isinstance(entry, str) else entry
        options = _with_threads(creator, options, threads)
        return gymnasium.make_vec(env_id, num_envs, vectorization_mode="vector_entry_point", **options)
    return gymnasium.make_vec(
        env_id,
        num_envs,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": autoreset},
        wrappers=[fit],  # type: ignore[list-item]
        disable_env_checker=True,
        **options,
    )


def _is_native(spec: EnvSpec) -> bool:
    """Whether it has a batch of its own. Gymnasium's are not counted: they take no seed for each sub-environment."""
    return spec.vector_entry_point is not None and not str(spec.vector_entry_point).startswith("gymnasium.envs.")


class _Wrapping:
    """Wrappers by name, around one environment after another."""

    def __init__(self, names: Sequence[str]) -> None:
        self._classes = [(name, resolve_wrapper(name)) for name in names]

    def __call__(self, env: Single) -> Single:
        for name, wrapper in self._classes:
            with guard(f"wrapping by {name!r}"):
                env = wrapper(env)
        return env


def _in_turn(
    factory: Callable[..., Single],
    num_envs: int,
    options: dict[str, Any],
    autoreset: AutoresetMode,
    fit: Callable[[Single], Single],
) -> Vector:
    return SyncVectorEnv([lambda: fit(_single(factory, options))] * num_envs, autoreset_mode=autoreset)


def _single(factory: Callable[..., Single], options: dict[str, Any]) -> Single:
    env: Any = factory(**options)
    if not isinstance(env, gymnasium.Env):
        raise EnvironmentFault(
            f"{name_of(factory)!r} takes no argument, so it must return a gymnasium.Env, not a {type(env).__name__}; "
            "a function that returns a VectorEnv takes their number n"
        )
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), gymnasium.Space):
            raise EnvironmentFault(f"{name_of(factory)!r} has no {name}: give it one of gymnasium.spaces")
    return env


def _wants_number(what: Any, options: Mapping[str, Any]) -> bool:
    """Whether `what` is a function n -> VectorEnv rather than a factory () -> Env."""
    if not callable(what):
        raise EnvironmentFault(
            f"cannot make an environment of a {type(what).__name__}: give a Gymnasium id, a gymnasium.Env class, "
            "a factory () -> Env, or a function n -> VectorEnv"
        )
    if isinstance(what, type) and issubclass(what, gymnasium.Env | VectorEnv):
        return issubclass(what, VectorEnv)
    return any(
        p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in options
        for p in inspect.signature(what).parameters.values()
    )


def _takes(what: Any, name: str) -> bool:
    return name in inspect.signature(what).parameters


def _with_threads(creator: Any, options: dict[str, Any], threads: int) -> dict[str, Any]:
    return {"threads": threads, **options} if threads and _takes(creator, "threads") else options


# --- How long each lives --------------------------------------------------------------------------------------------


@contextmanager
def closing(env: Vector, time_limit: float = 0.0) -> Iterator[Vector]:
    """Close the environment at the end, whatever happens; a fault in that does not hide an earlier one."""
    try:
        yield env
    except BaseException:
        with suppress(EnvironmentFault), guard("close", time_limit):
            env.close()
        raise
    with guard("close", time_limit):
        env.close()


class Environments:
    """The batches of one environment that a run needs: each size is made once, handed out again, and closed at the end.

    A reset with seeds makes a batch forget its past, so that who had it before cannot be seen. The keywords are those
    of `make_env`.
    """

    def __init__(self, what: Makes, *, time_limit: float = 0.0, **options: Any) -> None:
        self.what, self.time_limit, self._options = what, time_limit, options
        self._made: dict[int, Vector] = {}
        self._stack = ExitStack()

    def __reduce__(self) -> Any:
        """Another process makes its own."""
        return partial(Environments, self.what, time_limit=self.time_limit, **self._options), ()

    def of(self, num_envs: int) -> Vector:
        """The batch of `num_envs`."""
        if num_envs not in self._made:
            env = make_env(self.what, num_envs, time_limit=self.time_limit, **self._options)
            self._made[num_envs] = self._stack.enter_context(closing(env, self.time_limit))
        return self._made[num_envs]

    def __enter__(self) -> Environments:
        return self

    def __exit__(self, *error: Any) -> bool | None:
        self._made.clear()
        return self._stack.__exit__(*error)

"""Any gymnasium VectorEnv + something that acts + one seed -> a Batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from mepol.algorithm.batch import Batch
from mepol.algorithm.policy import Carrying, GaussianPolicy, NetworkPolicy, one_thread
from mepol.algorithm.population import PopulationPolicy
from mepol.envs.batched import DivisibleEnv
from mepol.envs.choices import counted
from mepol.envs.contract import (
    check_observations,
    check_spaces,
    checked_step,
    guard,
)
from mepol.envs.pixels import true_states, view_of
from mepol.errors import MepolWarning
from mepol.sampling.rows import Rows
from mepol.sampling.turns import run_through, take_turns

REMEDY = "a lower learning_rate or kl_threshold"  # for a policy without numbers
MIN_BLOCK, MAX_BLOCKS = 10, 4  # below ten rows, calling the policy costs more than its products


Cut = tuple[int, int, str]
"""Step, sub-environment and reason of a divergence."""


class Actor(Protocol):
    """What sampling needs of a policy."""

    def act(
        self, obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[np.float32]:
        """(M, S) observations -> (M, A) actions."""
        ...


@runtime_checkable
class Episodic(Protocol):
    """An actor that decides something once per trajectory."""

    def begin(self, m: int, rng: np.random.Generator) -> Actor:
        """What acts in the next M trajectories."""
        ...


def collect(
    actor: Actor,
    env: VectorEnv[Any, Any, Any],
    horizon: int,
    *,
    seed: int | np.random.SeedSequence,
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

    Where the environment and the actor allow, parts of the batch are sampled by different threads, which never meet
    before the end. How many threads there are cannot be seen in the result.

    Discrete actions of any kind are (M, T, A) whole numbers from 0 in the batch, one column a choice (envs/choices.py).

    >>> import gymnasium, mepol
    >>> env = gymnasium.make_vec("mepol/GridWorld-v0", 5)
    >>> batch = mepol.collect(mepol.GaussianPolicy(2, 2, (16,)), env, 60, seed=0)
    >>> batch.states.shape, batch.actions.shape
    ((5, 61, 2), (5, 60, 2))
    """
    check_spaces(env)  # a single environment is none
    rows = Rows.whole(env)
    batch, cuts = run_through(collecting(actor, env, horizon, rows, seed=seed, time_limit=time_limit))
    warn_of(cuts)
    return batch


def collecting(
    actor: Actor,
    env: VectorEnv[Any, Any, Any],
    horizon: int,
    rows: Rows,
    *,
    seed: int | np.random.SeedSequence,
    time_limit: float = 0.0,
) -> Generator[None, None, tuple[Batch, list[Cut]]]:
    """The `rows` of what `collect` draws, from an `env` of so many; yields now and then, and returns batch and cuts.

    The shards of a batch, laid one after the other, equal the whole, bit for bit, where what a row of the actor and of
    the environment does depends on no other row: each shard draws the noise of all and takes its own, and the policy
    acts on as many rows as it would on the whole, because the last digit of a product may depend on their number.
    """
    space, actions_space = check_spaces(env)
    env = counted(env)
    m = env.num_envs
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    reset_seed, noise_seed = root.spawn(2)
    rng = np.random.default_rng(noise_seed)

    picture, known = view_of(env)
    kind = np.float64 if picture is None else np.uint8  # pictures stay bytes until a network reads them
    states = np.zeros((m, horizon + 1, *space.shape), dtype=kind)
    truth = None if known is None else np.zeros((m, horizon + 1, len(known.names)))
    actions = np.zeros((m, horizon, *actions_space.shape), dtype=np.float32)
    lengths = np.full(m, horizon, dtype=np.int64)

    words = reset_seed.generate_state(rows.of)[rows.start : rows.stop]
    seeds: Any = [int(word) for word in words]  # VectorEnv takes a list, its types say int
    with guard("reset", time_limit):
        obs, info = env.reset(seed=seeds)
    if truth is not None:
        truth[:, 0] = true_states(info, truth[:, 0].shape, "reset")
    states[:, 0] = check_observations(obs, (m, *space.shape), "reset", first=rows.start)
    yield
    if isinstance(actor, Episodic):
        actor = actor.begin(rows.of, rng)

    parts, threads = _divided(actor, env, horizon, rows, rng, time_limit)
    resets_itself = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP) is not AutoresetMode.DISABLED
    loops = [
        p.sample(
            states[p.rows],
            actions[p.rows],
            lengths[p.rows],
            None if truth is None else truth[p.rows],
            resets_itself,
            time_limit,
        )
        for p in parts
    ]
    if len(loops) == 1:
        yield from loops[0]
    else:
        with one_thread():
            take_turns(loops, threads)
    return Batch(states, actions, lengths, truth), sorted(cut for part in parts for cut in part.cuts)


def warn_of(cuts: list[Cut]) -> None:
    """A warning for each trajectory that was cut because its simulation diverged."""
    for t, i, reason in cuts:
        text = f"environment {i} diverged at step {t + 1} ({reason}): its trajectory is cut there"
        warnings.warn(text, MepolWarning, stacklevel=3)


@dataclass(frozen=True)
class _Part:
    """Consecutive sub-environments that are sampled in step with each other.

    first: number of the first of them in the whole batch.
    act:  t, (R, S) observations -> (R, A) actions.
    step: (R, A) actions -> what `VectorEnv.step` returns, of these rows.
    cuts: step, sub-environment and reason of each divergence, once sampled.
    """

    rows: slice
    first: int
    act: Callable[[int, NDArray[np.float64]], NDArray[np.float32]]
    step: Callable[[Any], tuple[Any, Any, Any, Any, dict[str, Any]]]
    cuts: list[Cut] = field(default_factory=list)

    def sample(
        self,
        states: NDArray[Any],
        actions: NDArray[np.float32],
        lengths: NDArray[np.int64],
        truth: NDArray[np.float64] | None,
        resets_itself: bool,
        time_limit: float,
    ) -> Iterator[None]:
        """Fill states (R, T+1, S) from the start in states[:, 0], actions (R, T, A), lengths (R,) and truth (R, T+1, G)
        where there is any: a step a turn.
        """
        shape, first = states[:, 0].shape, self.first
        obs, alive = states[:, 0].copy(), np.ones(shape[0], dtype=bool)
        for t in range(actions.shape[1]):
            call = f"step {t}"
            actions[:, t] = self.act(t, obs)
            obs, _, terminated, truncated, diverged, info = checked_step(  # the reward is never read
                self.step, actions[:, t], shape, call, remedy=REMEDY, time_limit=time_limit, alive=alive, first=first
            )
            states[:, t + 1] = obs = obs.astype(states.dtype, copy=False)
            if truth is not None:
                truth[:, t + 1] = true_states(info, truth[:, t + 1].shape, call)
            if diverged is not None:
                broken = alive & diverged
                for i in np.flatnonzero(broken):
                    lengths[i] = max(t, 1)
                    reason = info["warning"][i] if "warning" in info else "no reason given"
                    self.cuts.append((t, first + int(i), reason))
                alive &= ~broken
            if resets_itself:
                ended = terminated | truncated
                for i in np.flatnonzero(alive & ended):
                    lengths[i] = t + 1
                    if "final_obs" in info:  # SAME_STEP: obs is already the next trajectory's start
                        with guard(call, time_limit):
                            states[i, t + 1] = info["final_obs"][i]
                alive &= ~ended
            if not alive.any():
                return
            yield


def _divided(
    actor: Actor,
    env: VectorEnv[Any, Any, Any],
    horizon: int,
    rows: Rows,
    rng: np.random.Generator,
    time_limit: float,
) -> tuple[list[_Part], int]:
    """The parts of a batch, or of the `rows` of one, and how many threads take turns at them.

    The last digit of a product may depend on how many rows it has. In an environment that can be divided, a policy
    therefore acts on the same blocks of rows whether or not they are parts of their own, and whoever has some rows of
    a block lets it act on all.
    """
    whole = slice(0, env.num_envs)
    inner = actor.policy if isinstance(actor, Carrying) else actor
    policy = inner if isinstance(inner, GaussianPolicy | PopulationPolicy) else None
    if policy is not None and type(policy).act is not NetworkPolicy.act:
        policy = None  # a class of the user's own
    if policy is None or not isinstance(env, DivisibleEnv) or not env.divisible:
        place = slice(rows.start, rows.stop)

        def act_among_all(_: int, obs: NDArray[np.float64]) -> NDArray[np.float32]:
            return actor.act(_among(obs, place, rows.of), rng)[place]

        return [_Part(whole, rows.start, act_among_all, env.step)], 1
    noise: list[NDArray[np.float32]] = []
    for _ in range(horizon):
        noise.append(policy.noise((rows.of,), rng, noise[-1] if noise else None))
    respond = {b.start: policy.responder(np.arange(b.start, b.stop)) for b in _blocks(rows.of)}

    def act(block: slice, own: slice, t: int, obs: NDArray[np.float64]) -> NDArray[np.float32]:
        within = slice(rows.start + own.start - block.start, rows.start + own.stop - block.start)
        return respond[block.start](_among(obs, within, block.stop - block.start), noise[t][block])[within]

    blocks = [  # each with those of its rows that are here, counted from the first that is
        (b, slice(max(b.start, rows.start) - rows.start, min(b.stop, rows.stop) - rows.start))
        for b in _blocks(rows.of)
        if b.start < rows.stop and rows.start < b.stop
    ]

    def act_for_all(t: int, obs: NDArray[np.float64]) -> NDArray[np.float32]:
        with one_thread():
            return np.concatenate([act(block, own, t, obs[own]) for block, own in blocks])

    # An alarm reaches the main thread alone; and `step`, unlike a few blocks, has work for any number of threads.
    if time_limit > 0 or len(blocks) < max(env.threads, 2):
        return [_Part(whole, rows.start, act_for_all, env.step)], 1
    parts = [_Part(o, rows.start + o.start, partial(act, b, o), partial(env.step_rows, o)) for b, o in blocks]
    return parts, env.threads


def _among(obs: NDArray[np.float64], place: slice, count: int) -> NDArray[np.float64]:
    """`obs` (R, S) in the `place` of (count, S) rows, the others 0; itself where there are no others."""
    if len(obs) == count:
        return obs
    padded = np.zeros((count, *obs.shape[1:]), dtype=obs.dtype)
    padded[place] = obs
    return padded


def _blocks(m: int) -> list[slice]:
    n = min(max(m // MIN_BLOCK, 1), MAX_BLOCKS)
    return [slice(m * b // n, m * (b + 1) // n) for b in range(n)]

"""The machinery that the MuJoCo domains share: one model, M states of it, stepped by all cores at once.

Each sub-environment owns one `MjData`, so contacts and solver warm starts carry over from step to step exactly as
in Gymnasium's environments. (`mujoco.rollout` is about as fast, but drops the warm start between calls, after which
the trajectories part.) `mj_step` lets go of the interpreter lock, so plain threads run in parallel. In `step`, every
thread takes another sub-environment as soon as it is done with one; with `step_rows`, threads of the caller step
different ones and need not meet at all. Who steps which one cannot be seen in the result.

A state is qpos followed by qvel, in float64, un-normalised; a domain may append more.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from mepol.envs.batched import Array, DivisibleEnv, Frame, Step
from mepol.envs.rendering import Renderer, View
from mepol.envs.simulator import mujoco
from mepol.errors import EnvironmentFault

# After any of these the state of a simulation is no longer the consequence of its actions: MuJoCo has put it back
# to the model's rest pose (the first three), or has replaced the control by zero.
FATAL = (
    mujoco.mjtWarning.mjWARN_BADQPOS,
    mujoco.mjtWarning.mjWARN_BADQVEL,
    mujoco.mjtWarning.mjWARN_BADQACC,
    mujoco.mjtWarning.mjWARN_BADCTRL,
)


class MujocoVectorEnv(DivisibleEnv):
    """M simulations of one model. A domain adds where a simulation starts (`start`, by way of `place`).

    model:      compiled model; it is shared and never changed.
    names:      a name for each coordinate of the state, S of them.
    frame_skip: physics steps in one environment step.
    threads:    how many threads step the physics; None is one a core that this process may use.

    A simulation that diverges stops there until it is reset: from that step on `truncated` is true for it, its
    observation is its last good state, and `info["diverged"]` (M,) and `info["warning"]` (M,) name it.
    """

    view: View

    def __init__(
        self,
        model: mujoco.MjModel,
        names: tuple[str, ...],
        frame_skip: int,
        *,
        num_envs: int,
        render_mode: str | None,
        threads: int | None,
        action_space: Box | None = None,
    ) -> None:
        if num_envs < 1 or (threads is not None and threads < 1):
            raise EnvironmentFault(f"num_envs = {num_envs} and threads = {threads} must be at least 1")
        low, high = model.actuator_ctrlrange.astype(np.float32).T
        space = Box(-np.inf, np.inf, (len(names),), np.float64)
        super().__init__(num_envs, space, action_space or Box(low, high, dtype=np.float32), render_mode)
        # One body is one island of constraints: to look for more finds none, changes no bit, and costs some per cent.
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
        self.model, self.frame_skip, self.feature_names = model, frame_skip, names
        self.metadata = {**self.metadata, "render_fps": round(1 / (model.opt.timestep * frame_skip))}  # type: ignore[misc]
        self.data = [mujoco.MjData(model) for _ in range(num_envs)]
        self.threads = min(num_envs, threads or _cores())
        # The calling thread steps too, so that one thread needs no pool at all.
        self._pool = ThreadPoolExecutor(self.threads - 1, "mepol-physics") if self.threads > 1 else None
        # Views of MuJoCo's own memory: looking them up at every step would cost more than copying what they hold.
        first, last = int(FATAL[0]), int(FATAL[-1])
        self._counters = [data.warning.number[first : last + 1] for data in self.data]
        self._controls = [data.ctrl for data in self.data]
        self._places = [(data.qpos, data.qvel) for data in self.data]
        self._nq, self._dofs = model.nq, model.nq + model.nv
        self._states = np.zeros((num_envs, len(names)))
        self._next = np.zeros_like(self._states)
        self._warning = np.full(num_envs, "", dtype=object)
        self._renderer: Renderer | None = None

    def place(self, i: int, qpos: Array, qvel: Array) -> None:
        """Put simulation i at rest time in the state (nq,), (nv,), with a cold solver, as Gymnasium's reset does."""
        data = self.data[i]
        mujoco.mj_resetData(self.model, data)
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_forward(self.model, data)
        self.read(i, self._states[i])
        self._warning[i] = ""

    def control(self, actions: Array) -> Array:
        """(M, A) actions -> (M, nu) MuJoCo controls; the same unless a domain maps them."""
        return actions

    def read(self, i: int, state: Array) -> None:
        """Write the state of simulation i into `state` (S,)."""
        state[: self._nq], state[self._nq : self._dofs] = self._places[i]

    def advance(self, actions: Array) -> None:
        """Step all simulations by `frame_skip` physics steps under constant controls."""
        self._require_open()
        controls = self.control(actions)
        # Threads take from both ends until they meet, so that none waits long for another and each steps about the
        # same simulations every time. Taking one is atomic.
        queue = deque(range(self.num_envs))
        ends = (queue.popleft, queue.pop)
        with QUIET:
            helpers = [
                self._pool.submit(self._drain, ends[n % 2], controls) for n in range(1, self.threads) if self._pool
            ]
            try:
                self._drain(ends[0], controls)
            finally:  # whatever stops this thread (a time limit, Ctrl-C), no other may go on behind its back
                queue.clear()
                wait(helpers)
            for helper in helpers:
                helper.result()
        self._keep_good(slice(0, self.num_envs))

    def _drain(self, take: Callable[[], int], controls: Array) -> None:
        while True:
            try:
                i = take()
            except IndexError:
                return
            if not self._warning[i]:
                self._controls[i][:] = controls[i]
                mujoco.mj_step(self.model, self.data[i], nstep=self.frame_skip)
                self._take(i)

    def _take(self, i: int) -> None:
        """After a physics step of simulation i, put its new state into `_next`, or its fault into `_warning`."""
        counts = self._counters[i].tolist()
        if any(counts):
            self._warning[i] = FATAL[counts.index(max(counts))].name
        else:
            self.read(i, self._next[i])

    def _keep_good(self, rows: slice) -> None:
        """Take over the new states of the simulations that are still good."""
        states, warning = self._next[rows], self._warning[rows]
        if not any(warning) and np.isfinite(states).all():  # nearly always
            self._states[rows] = states
            return
        good = warning == ""
        broken = good & ~np.isfinite(states).all(axis=1)
        warning[broken] = "NaN or infinite state"
        good &= ~broken
        self._states[rows][good] = states[good]

    def step(self, actions: Array) -> Step:  # type: ignore[override]
        """As `BatchedEnv.step`; simulations that have diverged are truncated and named in the info."""
        states, *_ = super().step(actions)
        return self._outcome(states, self._warning)

    @property
    def divisible(self) -> bool:
        """No, where a subclass has its own way to step: it may count on seeing all simulations."""
        own = MujocoVectorEnv
        return all(getattr(type(self), name) is getattr(own, name) for name in ("step", "advance", "observe"))

    def step_rows(self, rows: slice, actions: Array) -> Step:
        """As `step`, for some simulations and on the calling thread."""
        self._require_open()
        controls = self.control(self.clip(actions))
        good = [i for i in range(rows.start, rows.stop) if not self._warning[i]]
        for i in good:
            self._controls[i][:] = controls[i - rows.start]
        model, data, frame_skip = self.model, self.data, self.frame_skip
        with QUIET:
            for i in good:  # nothing else in this loop: between two physics steps any line of Python finds cold caches
                mujoco.mj_step(model, data[i], nstep=frame_skip)
        for i in good:
            self._take(i)
        self._keep_good(rows)
        return self._outcome(self._states[rows].copy(), self._warning[rows])

    def _outcome(self, states: Array, warning: NDArray[np.object_]) -> Step:
        m, info = len(states), {}
        truncated = np.zeros(m, dtype=bool)
        if any(warning):
            truncated = np.asarray(warning != "", dtype=bool)
            info = {"diverged": truncated.copy(), "warning": warning.copy()}
        return states, np.zeros(m), np.zeros(m, dtype=bool), truncated, info

    def _require_open(self) -> None:
        if self.closed:
            raise EnvironmentFault("this environment is closed: make a new one to go on")

    def observe(self) -> Array:
        """(M, S) the present states."""
        return self._states.copy()

    def picture(self, i: int) -> Frame:
        """(480, 480, 3) simulation i through the domain's camera, drawn without a screen."""
        if self._renderer is None:
            self._renderer = Renderer(self.model)
            self._shown = mujoco.MjData(self.model)
        # Drawn from a copy: mj_step leaves the bodies one physics step behind qpos, and what it left must stay as is.
        self._shown.qpos[:] = self._states[i, : self.model.nq]
        mujoco.mj_kinematics(self.model, self._shown)
        mujoco.mj_camlight(self.model, self._shown)
        return self._renderer.frame(self._shown, self.view)

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads and free the graphics context."""
        if self._pool is not None:
            self._pool.shutdown()
        if self._renderer is not None:
            self._renderer.close()


def _cores() -> int:
    """Cores that this process may use; where the system does not tell, all of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_body_names(joints: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the state of a free body with hinges: 7 + J positions, then 6 + J velocities."""
    pose = ("x", "y", "z", "quat_w", "quat_x", "quat_y", "quat_z")
    twist = ("velocity_x", "velocity_y", "velocity_z", "spin_x", "spin_y", "spin_z")
    return (*pose, *joints, *twist, *(f"{joint}_velocity" for joint in joints))


def load_spec(package: str, path: str) -> mujoco.MjSpec:
    """The editable model in a file that comes with an installed package; the package itself is not imported."""
    spec = importlib.util.find_spec(package)
    file = Path(next(iter(spec.submodule_search_locations or [""])) if spec else "") / path
    if spec is None or not file.is_file():
        raise EnvironmentFault(f"the model {path} comes with {package}, which lacks it: pip install 'mepol[mujoco]'")
    return mujoco.MjSpec.from_file(str(file))


def add_box(
    spec: mujoco.MjSpec,
    name: str,
    centre: tuple[float, float, float],
    half_size: tuple[float, float, float],
    *,
    seen: bool,
) -> None:
    """Add a fixed box: either only seen, or only felt by what touches it."""
    spec.worldbody.add_geom(
        name=name,
        type=mujoco.mjtGeom.mjGEOM_BOX,
        pos=centre,
        size=half_size,
        contype=0,
        conaffinity=0 if seen else 1,
        condim=3,
        rgba=(0.45, 0.5, 0.55, 1.0) if seen else (0.0, 0.0, 0.0, 0.0),
    )


class _Quiet:
    """Keeps MuJoCo from printing and from writing MUJOCO_LOG.TXT: warnings are counted and reported instead.

    MuJoCo has one handler for the process, so it is put back when the last thread leaves.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = mujoco.get_mju_user_warning()
                mujoco.set_mju_user_warning(lambda _: None)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                mujoco.set_mju_user_warning(self._before)


QUIET = _Quiet()

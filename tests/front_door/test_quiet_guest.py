"""A quiet guest: whoever calls finds the process as it was, down to the random state."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

GUEST = """
import json, os, random, signal, sys, warnings

import gymnasium, matplotlib, numpy, rich.console, scipy.sparse, scipy.special, scipy.stats, torch
# Libraries set filters of their own when they are imported: these are loaded first, so that what is seen is ours.

def look():
    kind, keys, *rest = numpy.random.get_state()
    return {
        "variables": dict(os.environ),
        "filters": list(warnings.filters),
        "showwarning": warnings.showwarning,
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "path": list(sys.path),
        "directory": os.getcwd(),
        "random": random.getstate(),
        "numpy": (kind, keys.tobytes(), *rest),
        "torch": torch.get_rng_state().numpy().tobytes(),
        "threads": torch.get_num_threads(),
        "gradients": torch.is_grad_enabled(),
    }

def call(name, function):
    before = look()
    result = function()
    after = look()
    changed[name] = [part for part in before if before[part] != after[part]]
    return result

def bring():
    global mepol
    import mepol

changed, small = {}, json.loads(sys.argv[1])
torch.set_num_threads(2)
call("import", bring)
explored = call("explore", lambda: mepol.explore("gridworld", epochs=1, out="explored", **small))
call("explore by advantages", lambda: mepol.explore("gridworld", epochs=1, rule="advantage", out="advantage", **small))
call("resume", lambda: mepol.resume("explored", length=2, progress=False))
call("evaluate", lambda: mepol.evaluate("explored", trajectories=5))
call("load", lambda: mepol.open("explored").best)
call("states", lambda: explored.states(trajectories=2))
call("figures", explored.figures)
call("video", lambda: explored.video(steps=2))
task = {"init": explored, "iterations": 1, "horizon": 20, "hidden": (8,), "threads": 1, "progress": False}
call("finetune", lambda: mepol.finetune("grid-goal1", out="trpo", **task, **{"trpo.steps": 40}))
sac = {"algo": "sac", "sac.warmup": 0, "sac.steps": 40, "sac.updates": 2}
call("finetune by SAC", lambda: mepol.finetune("grid-goal1", out="sac", **task, **sac))
call("resume a task", lambda: mepol.resume("trpo", length=2, progress=False))
ant = call("explore in MuJoCo", lambda: mepol.explore("ant", epochs=1, out="ant", **{**small, "horizon": 20}))
call("draw MuJoCo", lambda: ant.video("ant.gif", steps=1))
print(json.dumps(changed))
"""


@pytest.mark.parametrize("backend", [None, "egl"])
def test_every_call_leaves_the_process_as_it_was(backend, small, tmp_path):
    """In a process of its own: libraries that are loaded on the way are loaded once. That takes its time."""
    pytest.importorskip("mujoco")
    from mepol.envs import offscreen

    if not (offscreen._egl_works() or (backend is None and offscreen._osmesa_works())):
        pytest.skip("nothing to draw through")
    environment = {k: v for k, v in os.environ.items() if k not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    if backend:
        environment["MUJOCO_GL"] = backend
    command = [sys.executable, "-c", GUEST, json.dumps(small)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    changed = json.loads(done.stdout)  # nothing else was printed: progress=False
    assert {name: parts for name, parts in changed.items() if parts} == {}
    assert len(changed) == 14

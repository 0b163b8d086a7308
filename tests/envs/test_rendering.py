"""Pictures without a screen."""

from __future__ import annotations

import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import mepol  # noqa: F401  (registers the ids)
from mepol.errors import EnvironmentFault

pytest.importorskip("mujoco")

from mepol.envs import offscreen
from mepol.envs.humanoid import HumanoidVectorEnv

DRAW = """
import gymnasium, os, sys
before = dict(os.environ)
import mepol
env = gymnasium.make("mepol/Ant-v0", render_mode="rgb_array")
env.reset(seed=0)
spread = int(env.render().std())
drawn = [name for name in ("egl", "osmesa") if f"mujoco.{name}" in sys.modules]
print(*drawn, spread, os.environ == before)
"""


drawable = pytest.mark.skipif(
    not (offscreen._egl_works() or offscreen._osmesa_works()), reason="neither libegl1 nor libosmesa6 is installed"
)


@drawable
@pytest.mark.parametrize("domain", ["Ant", "AntMaze", "Humanoid", "HandReach", "GridWorld200"])
def test_every_domain_draws_its_present_state(domain):
    env = gymnasium.make(f"mepol/{domain}-v0", render_mode="rgb_array")
    env.reset(seed=0)
    first = env.render()
    assert first.shape == (480, 480, 3)
    assert first.dtype == np.uint8
    assert first.std() > 10
    np.testing.assert_array_equal(env.render(), first)
    for _ in range(10):
        env.step(env.action_space.high)
    assert np.abs(env.render().astype(int) - first).mean() > 0.1
    env.close()


@drawable
def test_looking_does_not_disturb_the_physics():
    seen, unseen = HumanoidVectorEnv(1, "rgb_array"), HumanoidVectorEnv(1)
    seen.reset(seed=0)
    unseen.reset(seed=0)
    for action in np.random.default_rng(0).uniform(-0.4, 0.4, (40, 1, 17)):
        if seen.data[0].ncon or not np.random.default_rng(1).integers(3):
            seen.render()
        np.testing.assert_array_equal(seen.step(action)[0], unseen.step(action)[0])
    seen.close()
    unseen.close()


@drawable
@pytest.mark.parametrize("backend", [None, "egl", "osmesa"])
def test_each_backend_draws_and_the_users_choice_is_obeyed(backend):
    if (backend == "egl" and not offscreen._egl_works()) or (backend == "osmesa" and not offscreen._osmesa_works()):
        pytest.skip(f"{backend} is not installed")
    environment = {k: v for k, v in os.environ.items() if k not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    if backend:
        environment["MUJOCO_GL"] = backend
    done = subprocess.run([sys.executable, "-c", DRAW], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    chosen, spread, unchanged = done.stdout.split()
    assert unchanged == "True"
    assert chosen == (backend or ("egl" if offscreen._egl_works() else "osmesa"))
    assert int(spread) > 10


def test_without_any_library_the_debian_package_is_named(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    offscreen.first_that_works.cache_clear()
    monkeypatch.setattr(offscreen, "_egl_works", lambda: False)
    monkeypatch.setattr(offscreen, "_osmesa_works", lambda: True)
    assert offscreen.choose_backend() == "osmesa"
    offscreen.first_that_works.cache_clear()
    monkeypatch.setattr(offscreen, "_osmesa_works", lambda: False)
    with pytest.raises(EnvironmentFault, match=r"libegl1 .*libosmesa6"):
        offscreen.choose_backend()
    offscreen.first_that_works.cache_clear()


def test_a_backend_that_fails_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    monkeypatch.setitem(sys.modules, "mujoco.osmesa", None)
    env = HumanoidVectorEnv(1, "rgb_array")
    env.reset(seed=0)
    with pytest.raises(EnvironmentFault, match=r"MUJOCO_GL=osmesa .*libegl1"):
        env.render()
    env.close()

"""Pictures of our own MuJoCo simulations, without a screen (offscreen.py says through what)."""

from __future__ import annotations

import atexit
import importlib
from dataclasses import dataclass

import numpy as np

from mepol.envs.batched import Frame
from mepol.envs.offscreen import REMEDY, choose_backend, platform_as_before
from mepol.envs.simulator import mujoco
from mepol.errors import EnvironmentFault


@dataclass(frozen=True)
class View:
    """A camera: it looks at `lookat` (metres) or follows body `track`, from `distance`; angles in degrees."""

    distance: float
    azimuth: float = 90.0
    elevation: float = -30.0
    lookat: tuple[float, float, float] = (0.0, 0.0, 0.0)
    track: int | None = None


class Renderer:
    """Draws states of one model, off screen. Use it from one thread and close it there."""

    def __init__(self, model: mujoco.MjModel, width: int = 480, height: int = 480) -> None:
        backend = choose_backend()
        try:
            with platform_as_before():
                self._gl = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
            self._gl.make_current()
            self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        except Exception as fault:  # each backend has its own errors; all mean that nothing can be drawn
            raise EnvironmentFault(f"cannot draw through MUJOCO_GL={backend} ({fault}): {REMEDY}") from fault
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._model, self._size = model, (width, height)
        self._scene = mujoco.MjvScene(model, maxgeom=1000)
        self._options = mujoco.MjvOption()
        atexit.register(self.close)  # after the backend's own, so run before it: EGL must still be there

    def frame(self, data: mujoco.MjData, view: View) -> Frame:
        """(height, width, 3) what `view` sees of `data`."""
        camera = mujoco.MjvCamera()
        camera.distance, camera.azimuth, camera.elevation = view.distance, view.azimuth, view.elevation
        camera.lookat[:] = view.lookat
        if view.track is not None:
            camera.lookat[:] = view.lookat + data.xpos[view.track]
        self._gl.make_current()
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(self._model, data, self._options, None, camera, everything, self._scene)
        width, height = self._size
        pixels: Frame = np.empty((height, width, 3), dtype=np.uint8)
        area = mujoco.MjrRect(0, 0, width, height)
        mujoco.mjr_render(area, self._scene, self._context)
        mujoco.mjr_readPixels(pixels, None, area, self._context)
        return pixels[::-1].copy()  # OpenGL's first row is the lowest

    def close(self) -> None:
        """Free the graphics context; closing again changes nothing."""
        atexit.unregister(self.close)
        self._context.free()
        self._gl.free()

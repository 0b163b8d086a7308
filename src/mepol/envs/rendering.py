"""Pictures of MuJoCo simulations without a screen.

MUJOCO_GL is obeyed when the user has set it (egl, osmesa, glfw). Otherwise EGL is tried, then OSMesa. The choice
must come before the first GL import, because PyOpenGL cannot change its platform afterwards; so the libraries are
tried through ctypes first. The environment variables are as before once a picture can be drawn.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import os
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from mepol.envs.batched import Frame
from mepol.envs.simulator import mujoco, platform_as_before
from mepol.errors import EnvironmentFault

REMEDY = "install libegl1 (or libosmesa6) with apt-get, or set MUJOCO_GL to egl, osmesa or glfw"


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


def choose_backend() -> str:
    """MUJOCO_GL, or the first backend that works where it is not set."""
    chosen = os.environ.get("MUJOCO_GL", "").lower().strip() or first_that_works()
    return chosen if chosen in ("egl", "osmesa") else "glfw"


@cache
def first_that_works() -> str:
    """`egl` or `osmesa`, whichever this machine can draw through."""
    chosen = "egl" if _egl_works() else "osmesa" if _osmesa_works() else ""
    if not chosen:
        raise EnvironmentFault(f"neither EGL nor OSMesa works here, so nothing can be drawn: {REMEDY}")
    return chosen


def _egl_works() -> bool:
    """Whether EGL can open a display on some device (a graphics card, or Mesa's software one)."""
    try:
        egl = ctypes.CDLL("libEGL.so.1")
    except OSError:
        return False
    pointer, number, any_pointer = ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p)

    def function(name: bytes, result: Any, *arguments: Any) -> Any:
        egl.eglGetProcAddress.restype = pointer
        address = egl.eglGetProcAddress(name)
        return ctypes.CFUNCTYPE(result, *arguments)(address) if address else None

    query = function(b"eglQueryDevicesEXT", ctypes.c_uint, number, any_pointer, ctypes.POINTER(number))
    display_of = function(b"eglGetPlatformDisplayEXT", pointer, ctypes.c_uint, pointer, pointer)
    initialise = function(b"eglInitialize", ctypes.c_uint, pointer, pointer, pointer)
    if not (query and display_of and initialise):
        return False
    devices, count = (pointer * 16)(), number()
    if not query(16, devices, ctypes.byref(count)):
        return False
    platform_device = 0x313F  # EGL_PLATFORM_DEVICE_EXT
    displays = [display_of(platform_device, devices[n], None) for n in range(count.value)]
    return any(display and initialise(display, None, None) for display in displays)


def _osmesa_works() -> bool:
    for name in ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False

"""Drawing without a screen: which graphics library works here, and the variables that make others take it.

MUJOCO_GL is obeyed when the user has set it (egl, osmesa, glfw). Otherwise EGL is tried, then OSMesa. The choice must
come before the first GL import, because PyOpenGL cannot change its platform afterwards; so the libraries are tried
through ctypes first. The environment variables are as before once a picture can be drawn.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from mepol.errors import EnvironmentFault

REMEDY = "install libegl1 (or libosmesa6) with apt-get, or set MUJOCO_GL to egl, osmesa or glfw"


@contextmanager
def off_screen() -> Iterator[None]:
    """Environments of other packages draw without a screen in the block, MuJoCo's and pygame's too.

    Gymnasium alone would try a window first, which on a machine without a screen ends in an OpenGL error.
    """
    wanted = {"SDL_VIDEODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
    if _egl_works() or _osmesa_works():
        wanted["MUJOCO_GL"] = choose_backend()
    before = {name: os.environ.get(name) for name in wanted}
    with platform_as_before():
        os.environ.update({name: value for name, value in wanted.items() if not before[name]})
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


@contextmanager
def platform_as_before() -> Iterator[None]:
    """PYOPENGL_PLATFORM is as before after the block. MuJoCo sets it for the first import of OpenGL, which reads it."""
    before = os.environ.get("PYOPENGL_PLATFORM")
    try:
        yield
    finally:
        os.environ.pop("PYOPENGL_PLATFORM", None)
        if before is not None:
            os.environ["PYOPENGL_PLATFORM"] = before


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

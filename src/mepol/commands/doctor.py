"""`mepol doctor`: what works on this machine, what is missing, and a self-test that explores for real."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from packaging.requirements import Requirement

from mepol import api
from mepol.commands.terminal import parse
from mepol.console.screen import stdout
from mepol.errors import RunError
from mepol.runs.files import require_place

State = Literal["ok", "missing", "failed"]
SELF_TEST: dict[str, Any] = {
    "horizon": 100,
    "trajectories": 10,
    "hidden": (32, 32),
    "evaluation_trajectories": 10,
    "eps": 1e-6,
}
"""Settings of the self-test: GridWorld, in a second or two."""


@dataclass(frozen=True)
class DoctorArguments:
    """Say what works on this machine and what is missing, and explore GridWorld for a few seconds to see that it does.

    Ends with code 1 where something fails that every exploration needs.
    """

    self_test: bool = True
    """Explore for real, stop, resume, and compare with a run that was never stopped."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: `missing` is something optional, `failed` something that every run needs."""

    state: State
    name: str
    text: str


def command(arguments: list[str]) -> None:
    """Print a line for each thing; fail, in one sentence, if something essential does."""
    parsed = parse(DoctorArguments, arguments, "mepol doctor")
    checks = [*CHECKS, self_test] if parsed.self_test else CHECKS
    failed = []
    for check in checks:
        for finding in _findings(check):
            stdout.print(f"{finding.state:<8} {finding.name:<22} {finding.text}")
            failed += [finding] if finding.state == "failed" else []
    if failed:
        names = ", ".join(finding.name for finding in failed)
        raise RunError(f"{len(failed)} of the things that every run needs failed: {names}")
    stdout.print("everything that an exploration needs works here")


def _findings(check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What a check finds; a fault of its own is a finding too."""
    try:
        yield from check()
    except Exception as fault:  # whatever a broken installation raises is what was looked for
        yield Finding("failed", check.__name__.replace("_", " "), f"{type(fault).__name__}: {fault}")


# --- What is looked at ----------------------------------------------------------------------------------------------


def python() -> Iterator[Finding]:
    """The interpreter."""
    yield Finding("ok", "python", f"{platform.python_version()} on {platform.platform()}, {sys.executable}")


def packages() -> Iterator[Finding]:
    """What mepol requires of other packages, by its own metadata: versions, and the command for an extra."""
    try:
        needs = [Requirement(line) for line in importlib.metadata.requires("mepol") or ()]
    except importlib.metadata.PackageNotFoundError:
        yield Finding("missing", "mepol", "not installed, only imported: pip install . puts it on the PATH")
        return
    yield Finding("ok", "mepol", importlib.metadata.version("mepol"))
    for need in (need for need in needs if need.marker is None):
        fault = _fault(need)
        yield Finding("failed" if fault else "ok", need.name, fault or _version(need))
    extras = sorted(importlib.metadata.metadata("mepol").get_all("Provides-Extra") or ())
    for extra in extras:
        parts = [n for n in needs if n.marker is not None and n.marker.evaluate({"extra": extra}) and n.name != "mepol"]
        if faults := [fault for need in parts if (fault := _fault(need))]:
            yield Finding("missing", f"extra {extra}", f"pip install 'mepol[{extra}]' ({'; '.join(faults)})")
        elif parts:
            yield Finding("ok", f"extra {extra}", ", ".join(f"{need.name} {_version(need)}" for need in parts))


def _version(need: Requirement) -> str:
    return importlib.metadata.version(need.name)


def _fault(need: Requirement) -> str:
    """What is wrong with an installed package, or nothing."""
    try:
        found = _version(need)
    except importlib.metadata.PackageNotFoundError:
        return f"{need.name} is not installed"
    return "" if need.specifier.contains(found, prereleases=True) else f"{found} is not {need.name}{need.specifier}"


def cores() -> Iterator[Finding]:
    """How many cores there are, and how many threads would be used."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    limit = os.environ.get("OMP_NUM_THREADS")
    held = f", OMP_NUM_THREADS={limit}" if limit else ""
    text = f"{os.cpu_count()} cores, {usable} usable; torch uses {torch.get_num_threads()} threads{held}"
    yield Finding("ok", "cores", f"{text} (--threads N sets them)")


def pictures() -> Iterator[Finding]:
    """What films are drawn through."""
    try:
        from mepol.envs.offscreen import choose_backend
        from mepol.envs.rendering import Renderer, View
        from mepol.envs.simulator import mujoco

        model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        drawer = Renderer(model, 32, 32)
        seen = drawer.frame(data, View(3.0)).std() > 0
        drawer.close()
        yield Finding("ok" if seen else "missing", "pictures of MuJoCo", f"drawn through {choose_backend()}")
    except Exception as fault:  # a library of graphics that is there and does not work: runs need none
        yield Finding("missing", "pictures of MuJoCo", str(fault))
    with suppress(ImportError):
        import imageio_ffmpeg  # type: ignore[import-untyped]

        yield Finding("ok", "films", f"mp4 through ffmpeg {imageio_ffmpeg.get_ffmpeg_version()}; gif")
        return
    yield Finding("missing", "films", "gif only; for mp4 pip install 'mepol[video]'")


def runs() -> Iterator[Finding]:
    """Whether runs can be written where they go by default."""
    place = Path("runs").absolute()
    try:
        require_place(place)
    except RunError as fault:
        yield Finding("failed", "runs", str(fault))
        return
    free = shutil.disk_usage(next(p for p in (place, *place.parents) if p.exists())).free
    yield Finding("ok" if free > 1 << 28 else "failed", "runs", f"{place} can be written, {free / 2**30:.1f} GB free")


def self_test() -> Iterator[Finding]:
    """Explore GridWorld, go on from a checkpoint, and end with the bits of a run that was never stopped."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mepol-doctor-") as folder:
        whole, parts = Path(folder) / "whole", Path(folder) / "parts"
        api.explore("gridworld-fast", epochs=2, out=whole, progress=False, **SELF_TEST)
        api.explore("gridworld-fast", epochs=1, out=parts, progress=False, **SELF_TEST)
        run = api.resume(parts, length=2, progress=False)
        same = (whole / "policy.safetensors").read_bytes() == (parts / "policy.safetensors").read_bytes()
        index = run.metrics["index"][-1]
    seconds = f"{time.perf_counter() - began:.1f} s"
    text = f"explored GridWorld (index {index:.3f} nats) and resumed it to the same bits in {seconds}"
    yield (
        Finding("ok", "self-test", text)
        if same
        else Finding("failed", "self-test", "a resumed run of GridWorld does not equal one that was never stopped")
    )


CHECKS: list[Callable[[], Iterator[Finding]]] = [python, packages, cores, pictures, runs]

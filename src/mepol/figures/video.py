"""Watch policies: an mp4 or a GIF in which each named policy has its own panel and all start from the same state."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mepol.envs.batched import Frame
from mepol.envs.contract import guard
from mepol.envs.make import make_single
from mepol.envs.offscreen import off_screen
from mepol.envs.pixels import Seen
from mepol.errors import ConfigError, EnvironmentFault
from mepol.runs.machine import threads_in_force
from mepol.runs.streams import Stream, stream
from mepol.sampling.actors import check_fit
from mepol.sampling.collect import Actor, Episodic

CAPTION = 32
"""Height of the strip with the policy's name, pixels."""
BORDER = 4
"""Width of the line between two panels, pixels."""


def film(
    actors: Mapping[str, Actor],
    what: Any,
    *,
    episodes: int,
    horizon: int,
    seed: np.random.SeedSequence,
    kwargs: Mapping[str, Any] | None = None,
    unit_actions: bool = True,
    wrappers: Sequence[str] = (),
    seen: Seen = "state",
    suffix: str = ".mp4",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> bytes:
    """A film of `episodes` episodes of `horizon` steps of each actor, side by side, as the bytes of a file.

    actors:   name -> what acts; one panel each, from left to right ({"before": ..., "after": ...}).
    what:     an environment that draws `rgb_array`, as `make_single` takes it; the film runs at its `render_fps`.
    suffix:   of the file: what it is, .mp4 or .gif.
    seed:     fixes start states and action noise; in one episode all actors share both.
    progress: called with (frames written, frames in all).

    An actor whose episode ends early (never in mepol's domains, unless a simulation diverges) holds its last frame.
    """
    if not actors or episodes < 1 or horizon < 1:
        raise ConfigError(
            f"a video needs at least one policy, episode and step; got {len(actors)}, {episodes} and {horizon}"
        )
    if suffix not in WRITERS:
        raise ConfigError(f"a video is an .mp4 or a .gif file, not {suffix or 'one without an ending'!r}")
    make = partial(make_single, what, kwargs, "rgb_array", unit_actions=unit_actions, wrappers=wrappers, seen=seen)
    with off_screen(), ExitStack() as stack:
        envs = [stack.enter_context(closing(make())) for _ in actors]
        rate = float(envs[0].metadata.get("render_fps", 30))
        pictures = stack.enter_context(closing(_pictures(actors, envs, episodes, horizon, seed, progress)))
        return WRITERS[suffix](pictures, rate)


def film_run(run: Any, *, which: str, steps: int | None, seed: int, **how: Any) -> bytes:
    """A film of the policy `which` of a `run` (run.py) beside the one it started from; how: as of `film`."""
    before = {"before": run.initial} if run.directory.policy_path("initial").is_file() else {}
    actors: dict[str, Actor] = {**before, "after": run.load(which)}
    config, domain = run.config, run.domain
    with run.working(1):  # whether the environment is here, and is the run's
        for actor in actors.values():
            check_fit(actor, domain.state_dim, domain.action_space, domain.env)
    with threads_in_force(config.machine):
        return film(
            actors,
            run.directory.phase.environments(config, run.given).what,
            kwargs=getattr(config, "env_kwargs", {}),
            wrappers=getattr(config, "wrappers", ()),
            unit_actions=config.unit_actions,
            seen=getattr(config, "seen", "state"),
            horizon=run.protocol.horizon if steps is None else steps,
            seed=stream(seed, Stream.FILM),
            **how,
        )


def _pictures(
    actors: Mapping[str, Actor],
    envs: Sequence[gymnasium.Env[Any, Any]],
    episodes: int,
    horizon: int,
    seed: np.random.SeedSequence,
    progress: Callable[[int, int], None],
) -> Generator[Frame, None, None]:
    """The film, a picture at a time: the actors' panels side by side."""
    total, done = episodes * (horizon + 1), 0
    for number, episode_seed in enumerate(seed.spawn(episodes), start=1):
        panels = [_panels(actor, env, horizon, episode_seed) for actor, env in zip(actors.values(), envs, strict=True)]
        for step, frames in enumerate(zip(*panels, strict=True)):
            titles = [f"{name}   episode {number}   step {step}" for name in actors]
            yield _side_by_side([_captioned(*panel) for panel in zip(frames, titles, strict=True)])
            done += 1
            progress(done, total)


def _panels(
    actor: Actor, env: gymnasium.Env[Any, Any], horizon: int, seed: np.random.SeedSequence
) -> Generator[Frame, None, None]:
    """The horizon + 1 frames of one episode."""
    start, noise = (int(word) for word in seed.generate_state(2))
    rng = np.random.default_rng(noise)
    with guard("reset"):
        obs, _ = env.reset(seed=start)
    if isinstance(actor, Episodic):
        actor = actor.begin(1, rng)
    frame = _frame(env)
    yield frame
    ended = False
    for _ in range(horizon):
        if not ended:
            action = actor.act(np.asarray(obs)[None], rng)[0]
            with guard("step"):
                obs, _, terminated, truncated, _ = env.step(action)
            ended = terminated or truncated
            frame = _frame(env)
        yield frame


def _frame(env: gymnasium.Env[Any, Any]) -> Frame:
    with guard("picture"):
        frame: Any = env.render()
    if not isinstance(frame, np.ndarray) or frame.ndim != 3 or frame.shape[2] != 3:
        raise EnvironmentFault(f"{env.spec.id if env.spec else env} gives no rgb_array pictures")
    return frame


def _captioned(frame: Frame, title: str) -> Frame:
    """The frame under a strip with the title, cut to even sides as H.264 wants."""
    height, width = frame.shape[0] // 2 * 2, frame.shape[1] // 2 * 2
    strip = Image.new("RGB", (width, CAPTION), "white")
    ImageDraw.Draw(strip).text((10, 6), title, fill="black", font=ImageFont.load_default(18))
    return np.vstack([np.asarray(strip), frame[:height, :width]])


def _side_by_side(panels: Sequence[Frame]) -> Frame:
    """Panels from left to right, with a dark line between them."""
    line = np.full((panels[0].shape[0], BORDER, 3), 60, dtype=np.uint8)
    parts = [part for panel in panels for part in (line, panel)]
    return np.hstack(parts[1:])


# --- Kinds of file --------------------------------------------------------------------------------------------------


def _mp4(pictures: Iterator[Frame], rate: float) -> bytes:
    """H.264 by ffmpeg; it writes where it likes, and who asked puts the film in its place."""
    try:
        import imageio_ffmpeg  # type: ignore[import-untyped]
    except ImportError as fault:
        raise EnvironmentFault("videos need imageio-ffmpeg: pip install 'mepol[video]', or ask for a .gif") from fault
    first = next(pictures)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        size = first.shape[1], first.shape[0]
        film = imageio_ffmpeg.write_frames(str(path), size, fps=rate, macro_block_size=2, quality=7)
        with closing(film):
            with _without_copy():
                film.send(None)  # starts ffmpeg
            for picture in chain([first], pictures):
                film.send(picture)
        data = path.read_bytes() if path.exists() else b""
    if not data:
        raise EnvironmentFault("ffmpeg wrote no film; what it says stands above")
    return data


@contextmanager
def _without_copy() -> Iterator[None]:
    """Let imageio-ffmpeg start its process without a copy of this one, which a system may refuse to a large process.

    What it does otherwise, between copy and start, is to keep Ctrl-C from ffmpeg. A film that is broken off is not kept
    in any case.
    """
    name = "IMAGEIO_FFMPEG_NO_PREVENT_SIGINT"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _gif(pictures: Iterator[Frame], rate: float) -> bytes:
    """A GIF by Pillow, which counts in hundredths of a second; viewers show fewer than two as ten."""
    frames = (Image.fromarray(picture).quantize(64) for picture in pictures)
    first, buffer = next(frames), io.BytesIO()
    hundredths = max(round(100 / rate), 2)
    first.save(buffer, "GIF", save_all=True, append_images=frames, duration=10 * hundredths, loop=0)
    return buffer.getvalue()


WRITERS: dict[str, Callable[[Iterator[Frame], float], bytes]] = {".mp4": _mp4, ".gif": _gif}
"""Ending of a film's file -> what writes it: pictures, and how many of them a second -> the bytes."""

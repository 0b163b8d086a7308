from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mepol.envs import offscreen
from mepol.errors import ConfigError, EnvironmentFault
from mepol.figures.video import BORDER, CAPTION, film

imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")


class Constant:
    """Always the same action, plus a little noise."""

    def __init__(self, *action: float) -> None:
        self.action = np.array(action, dtype=np.float32)

    def act(self, obs, rng, deterministic=False):
        noise = 0.01 * rng.standard_normal((len(obs), len(self.action)))
        return (self.action + noise).astype(np.float32)


def watch(data, folder):
    """Frames and rate of the film."""
    path = folder / "film.mp4"
    path.write_bytes(data)
    reader = imageio_ffmpeg.read_frames(str(path))
    about = next(reader)
    width, height = about["size"]
    frames = [np.frombuffer(raw, np.uint8).reshape(height, width, 3) for raw in reader]
    return np.array(frames), about["fps"]


def dot(panel):
    """(row, column) of the red agent in a picture of GridWorld."""
    return np.argwhere((panel[..., 0] > 150) & (panel[..., 1] < 110)).mean(axis=0)


def test_two_policies_stand_side_by_side_from_the_same_start(tmp_path):
    seen = []
    data = film(
        {"before": Constant(0.0, 0.0), "after": Constant(0.2, 0.2)},
        "mepol/GridWorld-v0",
        episodes=2,
        horizon=9,
        seed=np.random.SeedSequence(0),
        progress=lambda done, total: seen.append((done, total)),
    )
    frames, fps = watch(data, tmp_path)
    assert frames.shape == (20, 480 + CAPTION, 960 + BORDER, 3)
    assert frames[:, :, 480 : 480 + BORDER].max() < 120  # a dark line between the halves
    assert fps == 30
    assert seen[0] == (1, 20)
    assert seen[-1] == (20, 20)
    before, after = (
        [dot(frame[CAPTION:, columns]) for frame in frames] for columns in (np.s_[:480], np.s_[480 + BORDER :])
    )
    for start, end in ((0, 9), (10, 19)):
        np.testing.assert_allclose(before[start], after[start], atol=1)
        np.testing.assert_allclose(before[end], before[start], atol=6)
        np.testing.assert_allclose(
            after[end] - after[start], (-72, 72), atol=6
        )  # 9 x 0.2 units up, right; 40 pixels each
    assert np.abs(before[0] - before[10]).max() > 5  # another episode, another start


def test_ffmpeg_starts_without_a_copy_of_this_process(monkeypatch):
    """A process of many gigabytes may not be copied: then a call between copy and start would cost the film."""
    started, real = [], subprocess.Popen

    def spy(*args, **kwargs):
        started.append(kwargs.get("preexec_fn"))
        return real(*args, **kwargs)

    monkeypatch.setattr(subprocess, "Popen", spy)
    monkeypatch.setenv("IMAGEIO_FFMPEG_NO_PREVENT_SIGINT", "0")
    seed = np.random.SeedSequence(0)
    data = film({"": Constant(0.1, 0.0)}, "mepol/GridWorld-v0", episodes=1, horizon=3, seed=seed)
    assert data
    assert started
    assert set(started) == {None}
    assert os.environ["IMAGEIO_FFMPEG_NO_PREVENT_SIGINT"] == "0"  # as before


@pytest.mark.parametrize(
    ("env_id", "size", "fps"),
    [("mepol/MountainCar-v0", 1, 30), ("mepol/Ant-v0", 8, 20), ("mepol/HandReach-v0", 20, 25)],
)
def test_one_policy_in_other_domains(tmp_path, env_id, size, fps):
    if "Mountain" not in env_id:
        pytest.importorskip("mujoco")
    seed = np.random.SeedSequence(1)
    data = film({"policy": Constant(*[0.5] * size)}, env_id, episodes=1, horizon=4, seed=seed)
    frames, rate = watch(data, tmp_path)
    assert len(frames) == 5
    assert rate == pytest.approx(fps)
    assert np.abs(frames[0].astype(int) - frames[-1]).mean() > 0.05


def test_nothing_to_show_is_refused():
    for actors, episodes in (({}, 1), ({"policy": Constant(0.0)}, 0)):
        with pytest.raises(ConfigError, match="at least one"):
            film(actors, "mepol/MountainCar-v0", episodes=episodes, horizon=1, seed=np.random.SeedSequence(0))
    seed, actors = np.random.SeedSequence(0), {"policy": Constant(0.0)}
    with pytest.raises(ConfigError, match=r"an .mp4 or a .gif file, not '.avi'"):
        film(actors, "mepol/MountainCar-v0", episodes=1, horizon=1, seed=seed, suffix=".avi")


def test_a_gif_needs_no_ffmpeg(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    actors, seed = {"before": Constant(0.0, 0.0), "after": Constant(0.2, 0.2)}, np.random.SeedSequence(0)
    data = film(actors, "mepol/GridWorld-v0", episodes=1, horizon=4, seed=seed, suffix=".gif")
    with Image.open(io.BytesIO(data)) as picture:
        assert (picture.format, picture.n_frames, picture.size) == ("GIF", 5, (960 + BORDER, 480 + CAPTION))
        assert picture.info["duration"] == 30  # of 1/30 s, in whole hundredths
    with pytest.raises(EnvironmentFault, match=r"mepol\[video\]"):
        film(actors, "mepol/GridWorld-v0", episodes=1, horizon=4, seed=seed)


@pytest.mark.parametrize(
    ("env_id", "size", "needs"), [("Swimmer-v5", 2, "mujoco"), ("MountainCarContinuous-v0", 1, "pygame")]
)
def test_environments_of_others_draw_without_a_screen(env_id, size, needs, tmp_path):
    """In a process of its own, as what a library decides when it is loaded cannot be taken back."""
    pytest.importorskip(needs)
    if needs == "mujoco" and not (offscreen._egl_works() or offscreen._osmesa_works()):
        pytest.skip("nothing to draw through")
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); before = dict(os.environ)\n"
        "import numpy as np, mepol\nfrom test_video import Constant\nfrom mepol.figures.video import film\n"
        f"actors, seed = {{'one': Constant(*[0.5] * {size})}}, np.random.SeedSequence(0)\n"
        f"data = film(actors, {env_id!r}, episodes=1, horizon=2, seed=seed, suffix='.gif')\n"
        "assert dict(os.environ) == before; print(data[:3].decode())"
    )
    hidden = ("MUJOCO_GL", "PYOPENGL_PLATFORM", "DISPLAY", "SDL_VIDEODRIVER", "XDG_RUNTIME_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "GIF\n", "")

"""Environments by name: ids, packages imported on demand, modules and files of the user's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest

from mepol.envs import names, offscreen
from mepol.envs.coordinates import name_of
from mepol.envs.make import make_env
from mepol.envs.names import advice, is_known, nearest, resolve
from mepol.errors import ConfigError, EnvironmentFault
from mepol.exploration.presets import starting_config

ROOM = """
import gymnasium, numpy
from gymnasium.spaces import Box

class Room(gymnasium.Env):
    observation_space, action_space = Box(-1, 1, (2,), numpy.float64), Box(-1, 1, (2,), numpy.float32)
    def __init__(self, size=1.0): self.size = size
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-self.size, self.size, 2), {}
    def step(self, action):
        return self.np_random.uniform(-self.size, self.size, 2), 0.0, False, False, {}

gymnasium.register("MepolTestRoom-v0", Room)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "mepol_test_room.py").write_text(ROOM)
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield tmp_path
    assert sys.path == before  # the working directory was a guest there
    sys.modules.pop("mepol_test_room", None)
    gymnasium.registry.pop("MepolTestRoom-v0", None)


@pytest.mark.parametrize(
    "name", ["mepol_test_room:Room", "mepol_test_room:MepolTestRoom-v0", "mepol_test_room.py:Room", "{}:Room"]
)
def test_an_environment_of_ones_own_needs_no_line_beyond_itself(folder: Path, name: str) -> None:
    name = name.format(folder / "mepol_test_room.py")
    env = make_env(name, 3)
    states, _ = env.reset(seed=[1, 2, 3])
    assert states.shape == (3, 2)
    env.close()
    assert starting_config(name).env == name


def test_arguments_reach_the_construction(folder: Path) -> None:
    env = make_env("mepol_test_room:Room", 2, kwargs={"size": 0.25})
    states, _ = env.reset(seed=[1, 2])
    assert abs(states).max() <= 0.25


def test_a_file_is_loaded_once(folder: Path) -> None:
    assert resolve("mepol_test_room.py:Room") is resolve(f"{folder}/mepol_test_room.py:Room")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mepol_test_room:Rom", "has no environment 'Rom', nor does it register one; did you mean 'Room'"),
        ("no_such_module:Env-v0", "cannot import 'no_such_module'.*ModuleNotFoundError"),
        ("nowhere.py:Env", r"there is no file nowhere\.py"),
        ("broken.py:Env", r"broken\.py raised ZeroDivisionError when it was loaded: division by zero"),
    ],
)
def test_what_is_wrong_with_a_name_is_one_sentence(folder: Path, name: str, message: str) -> None:
    (folder / "broken.py").write_text("1 / 0\n")
    with pytest.raises(EnvironmentFault, match=message):
        resolve(name)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Pendulum-v0", "Pendulum-v1"),
        ("pendulum", "Pendulum-v1"),
        ("Swimmer-v9", "Swimmer-v5"),
        ("MountainCarContinous-v0", "MountainCarContinuous-v0"),
    ],
)
def test_the_nearest_id_is_suggested_across_the_registry(name: str, near: str) -> None:
    assert nearest(name)[0] == near
    with pytest.raises(ConfigError, match=near):
        starting_config(name)


def test_presets_are_suggested_too() -> None:
    with pytest.raises(ConfigError, match="did you mean 'gridworld'"):
        starting_config("grdworld")


def test_a_package_that_is_installed_is_imported_when_asked_for() -> None:
    assert is_known("FetchReach-v4")
    assert "FetchReach-v4" in gymnasium.registry


def test_what_a_package_prints_when_it_is_imported_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mepol_test_news.py").write_text("import sys; print('news of ours', file=sys.stderr)")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(names, "NAMESPACES", (names.Namespace("mepol_test_news", "news", ("News-",)),))
    with pytest.warns(UserWarning, match="^news of ours$") as caught:
        assert not is_known("News-v0")
    assert caught[0].filename == str(tmp_path / "mepol_test_news.py")
    assert capsys.readouterr().err == ""


def test_a_package_that_is_not_installed_is_named() -> None:
    assert advice("Meta-World/MT1") == "it may be one of metaworld, which is not installed: pip install 'metaworld'"


def test_a_stranger_to_all_is_told_how_to_name_its_own() -> None:
    with pytest.raises(ConfigError, match=r"MODULE:ENV_ID, MODULE:CLASS or FILE\.py:CLASS"):
        starting_config("zzzzqqqq")


def test_a_file_without_a_class_is_told_how_it_is_written(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"a class in a file is written mepol_test_room\.py:CLASS"):
        starting_config("mepol_test_room.py")


def test_a_class_in_a_file_is_called_by_its_file(folder: Path) -> None:
    assert name_of(resolve("mepol_test_room.py:Room")) == f"{folder}/mepol_test_room.py:Room"
    (folder / "lamed.py").write_text("import gymnasium\nclass Lamed(gymnasium.Env): pass\n")
    with pytest.raises(EnvironmentFault, match=r"lamed\.py:Lamed' has no observation_space"):
        make_env("lamed.py:Lamed", 1)


def test_a_package_is_imported_as_it_is_to_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dm_control looks at MUJOCO_GL when it is imported, and never again."""
    (tmp_path / "mepol_test_drawn.py").write_text("import os; found = dict(os.environ)")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(offscreen, "_egl_works", lambda: True)
    offscreen.first_that_works.cache_clear()
    monkeypatch.setattr(names, "NAMESPACES", (names.Namespace("mepol_test_drawn", "drawn", ("Drawn-",)),))
    assert not is_known("Drawn-v0")
    assert sys.modules["mepol_test_drawn"].found["MUJOCO_GL"] == "egl"
    assert "MUJOCO_GL" not in os.environ
    offscreen.first_that_works.cache_clear()

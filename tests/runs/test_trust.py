"""Names that ask for an import: the user's own are remembered, a stranger's are refused, in runs and in studies."""

from __future__ import annotations

from pathlib import Path

import pytest

from mepol.cli import main
from mepol.errors import RunError
from mepol.exploration.study import read_study
from mepol.runs.directory import RunDirectory
from mepol.runs.trust import remember, require_trusted

OWN = """
import gymnasium, numpy as np
from pathlib import Path
Path(__file__).with_suffix(".loaded").touch()
class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-9.0, 9.0, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float64)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = np.zeros(2)
        return self.x.copy(), {}
    def step(self, action):
        self.x = np.clip(self.x + action, -9.0, 9.0)
        return self.x.copy(), 0.0, False, False, {}
"""
SMALL = ["--epochs", "0", "--horizon", "20", "--evaluation-trajectories", "2"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with an environment of the user's own."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "walk.py").write_text(OWN)
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path


def test_a_run_of_one_s_own_file_opens_again_and_the_same_name_of_another_file_does_not(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["explore", "walk.py:Walk", *SMALL, "--out", "run"]) == 0
    assert RunDirectory.open("run").config.env == "walk.py:Walk"
    stranger = home / "theirs"
    stranger.mkdir()
    (stranger / "walk.py").write_text(OWN)
    monkeypatch.chdir(stranger)
    with pytest.raises(RunError, match=r"MEPOL_MODULES=walk\.py"):
        RunDirectory.open(home / "mine" / "run")
    assert not (stranger / "walk.loaded").exists()


def test_modules_are_known_by_where_they_lie(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="MEPOL_MODULES=walk"):
        require_trusted("walk:Walk", home)
    remember(["walk:Walk", "nowhere:Env", "Pendulum-v1", "given:thing"])
    require_trusted("walk:Walk", home)
    for other in ("walk:Other", "nowhere:Env"):  # another name of the module, and one that was never found
        with pytest.raises(RunError, match="MEPOL_MODULES"):
            require_trusted(other, home)
    (home / "walk.py").write_text(OWN)
    monkeypatch.chdir(home)
    with pytest.raises(RunError, match="MEPOL_MODULES=walk"):
        require_trusted("walk:Walk", home)
    assert not list(home.rglob("*.loaded"))  # nothing was imported to find out


@pytest.mark.parametrize(
    "text",
    [
        'env = "walk.py:Walk"\n',
        'preset = "gridworld"\n[settings]\nenv = "walk.py:Walk"\n',
        'preset = "gridworld"\n[settings]\nwrappers = ["gymnasium.wrappers:ClipAction", "walk.py:Walk"]\n',
        'preset = "gridworld"\n[[variant]]\nname = "a"\nenv = "walk.py:Walk"\n',
    ],
)
@pytest.mark.parametrize("command", ["sweep", "explore"])
def test_a_stranger_s_study_loads_no_file(
    text: str, command: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("study.toml").write_text(text)
    assert main([command, "study.toml", "--out", "out"]) == 1
    assert "MEPOL_MODULES" in capsys.readouterr().err
    assert not Path("walk.loaded").exists()
    assert not Path("out").exists()


@pytest.mark.parametrize("settings", ["", '[settings]\nwrappers = ["walk.py:Walk"]\n'])
def test_a_stranger_s_class_of_environments_loads_no_file(
    settings: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = "mepol/GridWorld-v0" if settings else "walk.py:Walk"
    Path("worlds.toml").write_text(f'{settings}[[world]]\nenv = "{env}"\nprobability = 1.0\n')
    assert main(["explore", "gridworld", "--envs", "worlds.toml", "--out", "out"]) == 1
    assert "MEPOL_MODULES" in capsys.readouterr().err
    assert not Path("walk.loaded").exists()


def test_what_calibrate_wrote_for_one_s_own_file_is_taken(home: Path) -> None:
    assert main(["calibrate", "walk.py:Walk", "--horizon", "30", "--write", "own.toml"]) == 0
    (config,) = read_study(Path("own.toml")).variants.values()
    assert config.env == "walk.py:Walk"


def test_an_account_that_cannot_be_written_to_is_asked_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "file"))
    remember(["walk.py:Walk"])
    with pytest.raises(RunError, match="MEPOL_MODULES"):
        require_trusted("walk.py:Walk", home)

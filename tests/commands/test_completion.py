"""Tab completes what there is: the scripts are asked as a shell asks them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mepol.cli import COMMANDS, main
from mepol.commands.completion import SCRIPTS, entries
from mepol.exploration.presets import PRESETS, starting_config
from mepol.finetuning.tasks import TASKS
from mepol.settings import describe


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "mepol.bash"
    path.write_text(SCRIPTS["bash"](entries()))
    return path


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers after these words, the last of which is being typed."""
    ask = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mepol; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", ask, "bash", script, *words], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_accepts_the_script(script: Path) -> None:
    done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["exp"], ["explore", "export"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["explore", "mountain"], [name for name in PRESETS if name.startswith("mountain")]),
        (["explore", "Pend"], ["Pendulum-v1"]),
        (["finetune", "ant-"], [name for name in TASKS if name.startswith("ant-")]),
        (["explore", "ant", "--kl-"], ["--kl-threshold"]),
        (["explore", "ant", "--explorer", "m"], ["mepol", "maxent"]),
        (["evaluate", "run", "--which", ""], ["last", "best", "initial"]),
        (["evaluate", ""], []),  # a run: the shell's own completion of files takes over
        (["explore", "ant", "--out", ""], []),
        (["horizon", "--verb"], ["--verbose"]),
    ],
    ids=lambda words: " ".join(words),
)
def test_bash_completes(words: list[str], offered: list[str], script: Path) -> None:
    assert completed(script, "mepol", *words) == offered


def test_every_command_and_every_setting_is_there(script: Path) -> None:
    assert set(completed(script, "mepol", "")) == {*COMMANDS, "--version"}
    offered = completed(script, "mepol", "explore", "gridworld", "--")
    for row in describe(starting_config("gridworld")):
        assert row.name in ("env_kwargs", "wrappers") or row.flag in offered or f"--no-{row.flag[2:]}" in offered
    for name, entry in entries().items():
        assert len(entry.flags) > 2 or name in ("presets", "help", "completion"), f"{name} completes no flag"


@pytest.mark.parametrize("shell", SCRIPTS)
def test_every_shell_gets_a_script_of_plain_words(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    for word in ("explore", "gridworld-fast", "ant-jump", "horizon", "initial"):
        assert re.search(rf"\b{word}\b", text)
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_shell_is_refused() -> None:
    with pytest.raises(SystemExit):
        main(["completion", "cmd"])

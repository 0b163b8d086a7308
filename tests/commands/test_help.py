"""Help that fits a screen and says the truth, and commands that are found, started and refused in one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mepol.cli import COMMANDS, main
from mepol.commands.terminal import assignment
from mepol.exploration.presets import PRESETS, starting_config
from mepol.finetuning.presets import default_config
from mepol.finetuning.tasks import TASKS
from mepol.settings import describe


def run_main(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    try:
        code = main(arguments)
    except SystemExit as stop:  # the argument parser's own way to refuse
        code = stop.code if isinstance(stop.code, int) else 1
    return code, *capsys.readouterr()


@pytest.mark.parametrize("words", [*(f"explore {p}" for p in PRESETS), *(f"finetune {t}" for t in TASKS)])
def test_the_first_screen_is_a_screen(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--help", "-h"):
        code, text, err = run_main([*words.split(), flag], capsys)
        assert (code, err) == (0, "")
        assert text.startswith(f"usage: mepol {words} ")
        assert text.count("\n") <= 25
        assert max(map(len, text.splitlines())) <= 100
        assert "--help-all" in text


def test_help_shows_default_and_range(capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run_main(["explore", "gridworld", "--help"], capsys)
    assert "  --max-steps INT          Accepted gradient steps per epoch, at most. [30; at least 1]\n" in text
    assert (
        "  --k INT                  Nearest neighbours ... [50; at least 0 (0: chosen by features and batch)]\n" in text
    )
    _, text, _ = run_main(["explore", "gridworld", "--fast", "--help"], capsys)
    assert "--hidden INT ..." in text
    assert "[64 64; " in text


@pytest.mark.parametrize("explorer", ["mepol", "maxent"])
def test_help_all_lists_every_setting_and_a_rival_s_with_it_alone(
    explorer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text, _ = run_main(["explore", "mountain-car", "--explorer", explorer, "--help-all"], capsys)
    assert code == 0
    otherwise = {"env_kwargs": "  --env-arg KEY=VALUE", "wrappers": "  --wrapper MODULE:CLASS"}
    rows = [r for r in describe(starting_config("mountain-car", explorer=explorer)) if r.name not in otherwise]
    assert all(flag in text for flag in otherwise.values())
    for row in rows:
        assert f"  {row.flag}" in text or f"  --no-{row.flag[2:]}" in text
        assert row.allowed in text
    assert ("--mixture-size INT [60; from 0 to 1000]" in text) == (explorer == "maxent")
    assert max(map(len, text.splitlines())) <= 100
    code, text, _ = run_main(["finetune", "ant-jump", "--help-all"], capsys)
    for row in describe(default_config("ant-jump")):
        assert row.name in ("task", "env", "env_kwargs") or f"  {row.flag}" in text or f"  --no-{row.flag[2:]}" in text


def test_a_rival_s_settings_are_refused_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run_main(["explore", "mountain-car", "--mixture-size", "3"], capsys)
    assert code == 2
    assert "--mixture-size" in err
    assert run_main(["explore", "mountain-car", "--rival", "3"], capsys)[0] == 2
    assert run_main(["explore", "mountain-car", "--env-kwargs", "a", "3"], capsys)[0] == 2
    code, _, err = run_main(["explore", "mountain-car", "--explorer", "nobody"], capsys)
    assert (code, "explorer = 'nobody' is not one of 'mepol'" in err) == (2, True)


def test_what_looks_on_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run_main(["explore", "gridworld", "--help"], capsys)
    assert "--stop-index FLOAT" in text
    assert "--log TEXT ...           Loggers that get each row: tensorboard, wandb. [none]\n" in text
    _, text, _ = run_main(["explore", "gridworld", "--help-all"], capsys)
    for flag, words in (("--log TEXT ... [none]", "Loggers"), ("--stop-discrete FLOAT [none]", "End the run well")):
        assert f"  {flag}\n      {words}" in text
    for flag in ("--help", "--help-all"):
        _, text, _ = run_main(["finetune", "grid-goal1", flag], capsys)
        assert "--which NAME" in text
        assert "--log TEXT ..." in text
    _, text, _ = run_main(["resume", "--help"], capsys)
    for words in ("--epochs INT ", "--iterations INT ", "--log ", "--stop-index FLOAT ", "--stop-discrete FLOAT "):
        assert words in text
    assert "None" not in text


def test_the_usage_names_which_policy_and_both_phases(capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run_main(["help"], capsys)
    for name in ("evaluate", "horizon", "video", "goals", "finetune", "export", "collect"):
        line = next(line for line in text.splitlines() if line.startswith(f"  mepol {name} "))
        assert "--which W" in line
        _, own, _ = run_main([name, *(["grid-goal1"] if name == "finetune" else []), "--help"], capsys)
        assert "last, best, initial" in own or "{last,best,initial}" in own
    assert "RUN is the directory of an exploration or of a fine-tuning" in text
    assert max(map(len, text.splitlines())) <= 120


def test_hints_after_fast_name_what_exists(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--no-such-flag", "1"], ["--k", "many"], ["--help"]):
        code, text, err = run_main(["explore", "hand-reach", "--fast", *arguments], capsys)
        assert code == (0 if arguments == ["--help"] else 2)
        assert "hand-reach-fast" not in text + err


def test_brackets_are_printed_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run_main(["explore", "gridworld", "--features", "[red]x[/red]"], capsys)
    assert "'[red]x[/red]'" in err
    code, text, _ = run_main(["finetune", "[bold]:goal", "--help-all", "--env", "gridworld"], capsys)
    assert (code, "[bold]:goal" in text) == (0, True)


def test_control_characters_of_a_name_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run_main(["evaluate", "no\x1b]52;c;AAAA\x07such"], capsys)
    assert code == 1
    assert r"no\x1b]52;c;AAAA\x07such" in err
    assert "\x1b" not in err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_module(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, err = run_main([name, "--help"], capsys)
    assert (code, err) == (0, "")
    assert f"mepol {name}" in text or name == "help"


@pytest.mark.parametrize("module", ["mepol", "mepol.cli"])
def test_python_runs_it_as_a_module(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.startswith("mepol "), done.stderr) == (0, True, "")


@pytest.mark.parametrize(
    ("module", "arguments", "words"),
    [
        ("mujoco", ["explore", "ant", "--epochs", "0"], "mepol[mujoco]"),
        ("stable_baselines3", ["finetune", "grid-goal1", "--iterations", "0"], "mepol[finetune]"),
        ("sklearn", ["explore", "mountain-car", "--explorer", "maxent", "--mixture-size", "1"], "mepol["),
        ("mepol.commands.goals", ["goals", "run"], "cannot import mepol"),
    ],
)
def test_a_missing_module_is_one_sentence(module: str, arguments: list[str], words: str, tmp_path: Path) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from mepol.cli import main; sys.exit(main({arguments!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert done.stderr.startswith("mepol: ")
    assert words in done.stderr


def test_a_terminal_without_our_letters_is_no_traceback(tmp_path: Path) -> None:
    code = "import sys; from mepol.cli import main; sys.exit(main(['evaluate', 'ü\\udc80']))"
    environment = {"PYTHONIOENCODING": "ascii:strict", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert "is not a run directory" in done.stderr


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run_main(["help"], capsys)
    listed = {line.split()[1] for line in text.splitlines() if line.startswith("  mepol ")}
    assert listed == set(COMMANDS) - {"help"}


@pytest.mark.parametrize("value", ["True", "False", "true", " False "])
def test_truth_values_are_read_as_python_and_as_toml_write_them(value: str) -> None:
    assert assignment(f"continuous={value}") == ("continuous", value.strip().lower() == "true")
    assert assignment(f"name={value}s") == ("name", f"{value}s")


@pytest.mark.parametrize("module", ["torch", "tyro"])
def test_who_stops_it_while_it_is_imported_sees_nothing(module: str, tmp_path: Path) -> None:
    """As the installed command is begun; a module that never ends stands for the time that imports take."""
    (tmp_path / f"{module}.py").write_text(
        "print('here', flush=True)\nimport time\nwhile True:\n    time.sleep(0.01)\n"
    )
    code = "import sys; sys.argv = ['/usr/bin/mepol', 'doctor']; from mepol.cli import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, **pipes) as process:
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")

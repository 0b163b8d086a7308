"""Where things are written: told at once where that is impossible, never over what is there, named when stopped."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import mepol
from mepol.cli import main
from mepol.commands.terminal import parting_words, resumable
from mepol.errors import RunError
from mepol.exploration.drive import explore, resume
from mepol.runs.directory import RunDirectory


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, tiny) -> Path:
    return explore(tiny(epochs=0), tmp_path_factory.mktemp("places") / "run").path


def never(n: int) -> None:
    raise AssertionError("an environment was made")


@pytest.mark.parametrize("name", ["file", "file/below", "x" * 300, "full"])
def test_a_bad_place_is_told_before_an_environment_is_made(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").write_text("text")
    with pytest.raises(RunError, match="choose another --out"):
        mepol.explore(never, out=tmp_path / name, progress=False)
    with pytest.raises(RunError, match="choose another --out"):
        mepol.finetune(lambda states: states[:, 0] > 0, env=never, out=tmp_path / name, progress=False)


def test_paths_may_be_texts(run: Path, tiny, tmp_path: Path) -> None:
    out = str(tmp_path / "new")
    explore(tiny(epochs=0), out)
    assert RunDirectory.open(out).path == Path(out)
    assert [row.epoch for row in resume(out, length=1).rows()] == [0, 1]


def test_a_failure_leaves_no_temporary_folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def broken(n: int) -> None:
        raise ImportError("no module", name="mujoco")

    with pytest.raises(mepol.MepolError):
        mepol.explore(broken, progress=False)
    assert list(tmp_path.iterdir()) == []


def test_who_stops_is_told_where_the_run_is(run: Path, tmp_path: Path) -> None:
    for path, words in ((run, f"is in {run}, and mepol resume goes on"), (tmp_path / "no", "nothing was written to")):
        with pytest.raises(KeyboardInterrupt) as caught, resumable(path, "mepol resume"):
            raise KeyboardInterrupt
        assert words in parting_words(caught.value)
        assert str(path) in parting_words(caught.value)
    assert parting_words(KeyboardInterrupt()) == "what was finished is kept"


# --- horizon and sweep ------------------------------------------------------------------------------------------------


def test_horizon_never_writes_over_its_last_output(run: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["horizon", str(run), "--until", "10", "--points", "1", "--trajectories", "8"]
    assert main(command) == main(command) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"horizon", "horizon-2"}
    assert main([*command, "--out", "horizon"]) == 1
    assert "already holds the results" in capsys.readouterr().err


def test_horizon_measures_runs_whose_particles_coincide(run: Path, tmp_path: Path, capsys) -> None:
    """A policy that pushes every agent into the corner, with no volume of the run's own."""
    still = Path(shutil.copytree(run, tmp_path / "still"))
    config = json.loads((still / "config.json").read_text())
    config["ascent"]["eps"] = 0.0
    (still / "config.json").write_text(json.dumps(config))
    policy = mepol.load_policy(still / "policy.safetensors")
    policy.layers[-1].bias.data.fill_(-9.0)
    policy.log_std.data.fill_(-9.0)
    mepol.save_policy(policy, still / "policy.safetensors")
    command = ["horizon", str(still), "--until", "50", "--points", "1", "--trajectories", "8", "--out"]
    assert main([*command, str(tmp_path / "out")]) == 0
    err = capsys.readouterr().err
    assert err.startswith(f"mepol: warning: {still}: ")
    assert "particles coincide with their k=4 nearest neighbours" in err
    assert err.endswith("measured again with --eps 0.0001 added to every volume\n")
    assert main([*command, str(tmp_path / "other"), "--eps", "0"]) == 1


def test_settings_of_a_sweep_add_up_and_any_environment_will_do(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["--set", "epochs=0", "horizon=20", "--set", "trajectories=3", "--set", "evaluation_trajectories=4", "k=2"]
    small += ["--set", "zero_mean_steps=0"]
    assert main(["sweep", "Pendulum-v1", "--seeds", "1", *small]) == 0
    config = RunDirectory.open(tmp_path / "sweeps" / "Pendulum-v1" / "Pendulum-v1-seed-0").config
    assert (config.env, config.epochs, config.horizon, config.trajectories) == ("Pendulum-v1", 0, 20, 3)
    assert (config.evaluation.evaluation_trajectories, config.ascent.k) == (4, 2)
    assert main(["sweep", "Pendulum-v7"]) == 2
    assert "did you mean 'Pendulum-v1'?" in capsys.readouterr().err


def test_importing_mepol_loads_no_figures() -> None:
    code = "import sys, mepol; print([m for m in ('matplotlib', 'mepol.figures', 'mujoco') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("number", "code", "word"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "int")])
def test_a_stop_that_a_library_turned_into_a_fault_of_its_own_is_still_a_stop(
    number: signal.Signals, code: int, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As torch does where it copies a tensor."""

    def swallow(arguments: list[str]) -> None:
        try:
            signal.raise_signal(number)
        except BaseException as stop:
            raise ValueError("could not determine the shape") from stop

    before = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)]
    monkeypatch.setattr("mepol.commands.doctor.command", swallow)
    assert main(["doctor"]) == code
    assert f"mepol: {word}" in capsys.readouterr().err
    assert before == [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)]

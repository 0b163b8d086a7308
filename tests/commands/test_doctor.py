"""`mepol doctor` finds what is there, what is missing and what is broken."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

from mepol.cli import main
from mepol.commands import doctor


def test_a_sound_machine_passes(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = {line[9:31].strip(): line for line in out.splitlines()[:-1]}
    assert np.__version__ in lines["numpy"]
    assert importlib.metadata.version("gymnasium") in lines["gymnasium"]
    assert "resumed it to the same bits" in lines["self-test"]
    assert str(tmp_path / "runs") in lines["runs"]
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


def test_versions_are_compared_with_what_is_required() -> None:
    assert doctor._fault(Requirement("numpy>=1")) == ""
    assert doctor._fault(Requirement("numpy>=999")).endswith("is not numpy>=999")
    assert doctor._fault(Requirement("no-such-package>=1")) == "no-such-package is not installed"


def test_a_place_that_cannot_be_written_is_a_failure(capsys, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "runs").write_text("a file in the way")
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--no-self-test"]) == 1
    out, err = capsys.readouterr()
    assert "failed   runs" in out
    assert err.startswith("mepol: 1 of the things that every run needs failed: runs")
    assert err.count("\n") == 1


def test_what_is_optional_may_be_missing(tmp_path: Path) -> None:
    """Without MuJoCo and ffmpeg the pictures are missing, and nothing fails."""
    hide = "import sys; sys.modules['mujoco'] = None; sys.modules['imageio_ffmpeg'] = None\n"
    code = f"{hide}from mepol.cli import main; sys.exit(main(['doctor', '--no-self-test']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "missing  pictures of MuJoCo" in done.stdout
    assert "missing  films                  gif only; for mp4 pip install 'mepol[video]'" in done.stdout

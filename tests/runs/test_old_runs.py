"""Run directories that version 0.1's earlier layout left still open, and go on as they would have gone on then.

old/explore and old/trpo were made before both phases had one directory: settings of the machine and of MaxEnt among the
others, no identity, no domain.json, one checkpoint format for each phase. The *-whole beside each is what the same
version made of a longer run.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import mepol
from mepol.cli import main

OLD = Path(__file__).with_name("old")
LENGTHS = {"explore": 4, "trpo": 3}
TURNS = {"explore": "epoch", "trpo": "iteration"}
# Numbers hold on any processor to a tolerance; a checkpoint of another torch is gone on from, with a warning.
pytestmark = pytest.mark.filterwarnings("ignore:.*another version:mepol.errors.MepolWarning")


@pytest.fixture(params=LENGTHS)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD / request.param, tmp_path / request.param))


def test_it_opens_with_all_that_it_holds(old: Path) -> None:
    run = mepol.open(old)
    assert run.finished
    assert run.config.machine.threads == 1
    assert run.config.seed == 5
    assert run.metrics[TURNS[old.name]].tolist() == [0, 1, 2]
    assert run.policy.widths == (2, 4, 2)
    assert run.best.widths == (2, 4, 2)  # it kept none: the last stands in
    assert run.domain.names == ("x", "y")
    assert run.states(trajectories=2, horizon=7).shape == (2, 8, 2)


def test_it_goes_on_as_it_would_have_gone_on_then(old: Path) -> None:
    length = LENGTHS[old.name]
    for reached in (length - 1, length):  # the second time from a checkpoint of today's format
        mepol.resume(old, length=reached, progress=False)
    now, then = mepol.open(old), mepol.open(OLD / f"{old.name}-whole")
    assert now.finished
    for name, column in then.metrics.items():
        if not name.endswith("_s"):
            np.testing.assert_allclose(now.metrics[name], column, rtol=1e-6, err_msg=name)
    ours, theirs = (load_file(p / "policy.safetensors") for p in (old, OLD / f"{old.name}-whole"))
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        np.testing.assert_allclose(ours[name], tensor, rtol=1e-5, atol=1e-7, err_msg=name)
    assert (old / "best.safetensors").is_file()  # from here on it is kept
    assert (old / "domain.json").is_file()  # and this is known without an environment
    assert now.domain.names == ("x", "y")


def test_every_command_takes_it(old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(old), "--trajectories", "3", "--eps", "1e-9", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["particles"] == 60
    assert main(["compare", str(old), str(OLD / f"{old.name}-whole"), "--out", str(tmp_path / "both")]) == 0
    assert (tmp_path / "both" / "curves.csv").is_file()
    assert main(["video", str(old), "--steps", "3", "--out", str(tmp_path / "film.mp4")]) == 0
    assert (tmp_path / "film.mp4").stat().st_size > 1000
    assert main(["resume", str(old)]) == 0
    assert mepol.open(old).metrics[TURNS[old.name]].tolist() == [0, 1, 2]


def test_the_visits_of_an_exploration_are_animated(tmp_path: Path) -> None:
    run = shutil.copytree(OLD / "explore", tmp_path / "run")
    assert main(["animate", str(run), "--out", str(tmp_path / "visits.gif")]) == 0
    assert (tmp_path / "visits.gif").read_bytes().startswith(b"GIF")

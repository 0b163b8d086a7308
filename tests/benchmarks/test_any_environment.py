"""Environments that nobody here wrote, by name alone: a run of seconds of each that the table of results/any has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import any_environment
import mepol
from mepol.cli import main

SMALL = ["--epochs", "1", "--trajectories", "4", "--horizon", "40", "--evaluation-trajectories", "4", "--threads", "1"]


@pytest.mark.parametrize("name", any_environment.ENVIRONMENTS, ids=lambda name: name.rpartition(":")[2])
def test_it_is_explored_by_its_name_alone(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", name, *SMALL, "--out", str(tmp_path / "run")]) in (None, 0)
    said = capsys.readouterr()
    run = mepol.open(tmp_path / "run")
    measured = run.metrics["index"]
    assert np.isfinite(measured).all()
    assert len(measured) == 2
    assert "Warning" not in said.err + said.out  # neither ours nor anybody else's
    with run.working(4) as env:
        seen = run.domain.particles(run.rollout(env))
    still = np.flatnonzero(np.ptp(seen, axis=0) == 0)  # what never moves has no part in the entropy,
    assert len(still) <= (name == "FetchReach-v4")  # and this one's finger moves by a push alone

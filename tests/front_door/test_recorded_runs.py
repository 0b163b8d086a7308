"""Runs that are kept under results/, some from early versions: each still opens, and what it learnt still acts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mepol

RESULTS = Path(__file__).parents[2] / "results"
RUNS = sorted(path.parent.relative_to(RESULTS).as_posix() for path in RESULTS.rglob("config.json"))


def test_there_are_some_of_both_phases() -> None:
    assert {"gridworld-demo-seed-0", "ant-jump-seed-0"} <= set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_it_opens_and_its_policy_acts(name: str) -> None:
    run = mepol.open(RESULTS / name)
    assert len(run.metrics["samples"]) > 0
    if not (RESULTS / name / "policy.safetensors").exists():  # of one run the measurements alone are kept
        assert name == "mountain-car-eps6-seed-0"
        return
    policy = run.policy
    actions = policy.act(np.zeros((3, policy.widths[0])), np.random.default_rng(0))
    assert actions.shape[0] == 3
    assert np.isfinite(actions).all()

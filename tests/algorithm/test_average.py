"""The mean of policies: by hand, and what a run keeps of it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mepol
from mepol.algorithm.average import Average
from mepol.algorithm.policy import GaussianPolicy
from mepol.errors import ConfigError

SMALL: dict[str, Any] = {
    **{"horizon": 30, "trajectories": 4, "k": 4, "hidden": (8,), "epochs": 4, "evaluate_every": 1, "threads": 1},
    **{
        "evaluation_trajectories": 4,
        "zero_mean_steps": 0,
        "mirror": True,
        "learning_rate": 1e-3,
        "eps": 1e-9,
        "progress": False,
    },
}


def policy(value: float) -> GaussianPolicy:
    made = GaussianPolicy(2, 1, (4,))
    with torch.no_grad():
        for tensor in made.state_dict().values():
            tensor.fill_(value)
    return made


def test_the_first_policies_count_alike_and_later_ones_by_the_share_that_is_left() -> None:
    """With 0.75 kept: (2 + 4 + 9) / 3 = 5 after three, then a quarter of each new one."""
    average = Average(policy(-100.0), 0.75)
    for learnt, value in enumerate((2.0, 4.0, 9.0, 7.0, 13.5), start=1):
        average.take(policy(value), learnt)
        wanted = {1: 2.0, 2: 3.0, 3: 5.0, 4: 5.5, 5: 7.5}[learnt]
        for tensor in average.policy.state_dict().values():
            torch.testing.assert_close(tensor, torch.full_like(tensor, wanted))


def test_a_run_keeps_and_measures_the_mean_and_learns_as_without(tmp_path: Path) -> None:
    newest: list[Any] = []
    plain = mepol.explore(
        "gridworld", out=tmp_path / "plain", callbacks=[lambda p: newest.append(copy.deepcopy(p.policy))], **SMALL
    )
    run = mepol.explore("gridworld", out=tmp_path / "mean", average=0.5, **SMALL)
    np.testing.assert_array_equal(run.metrics["entropy"], plain.metrics["entropy"])  # of the batches learnt from
    np.testing.assert_array_equal(run.metrics["kl"], plain.metrics["kl"])
    wanted = copy.deepcopy(newest[0])
    for learnt, new in enumerate(newest[:4], start=1):
        for mean, value in zip(wanted.state_dict().values(), new.state_dict().values(), strict=True):
            mean.copy_(mean + max(0.5, 1 / learnt) * (value - mean))
    for name, tensor in run.policy.state_dict().items():
        torch.testing.assert_close(tensor, wanted.state_dict()[name])
    assert run.metrics["index"][1] == plain.metrics["index"][1]  # the mean of one policy
    assert run.metrics["index"][-1] != plain.metrics["index"][-1]


def test_a_run_that_was_stopped_goes_on_with_the_same_mean(tmp_path: Path) -> None:
    whole = mepol.explore("gridworld", out=tmp_path / "whole", average=0.8, **SMALL)
    mepol.explore("gridworld", out=tmp_path / "parts", average=0.8, **{**SMALL, "epochs": 2})
    parts = mepol.resume(tmp_path / "parts", length=4, progress=False)
    for name, tensor in whole.policy.state_dict().items():
        assert torch.equal(tensor, parts.policy.state_dict()[name])
    np.testing.assert_array_equal(whole.metrics["index"], parts.metrics["index"])


def test_who_does_not_learn_has_nothing_to_average(tmp_path: Path) -> None:
    for settings in ({"explorer": "random", "average": 0.9}, {"average": 1.0}):
        with pytest.raises(ConfigError, match="average = "):
            mepol.explore("gridworld", out=tmp_path / "none", **{**SMALL, **settings})
    assert not (tmp_path / "none").exists()

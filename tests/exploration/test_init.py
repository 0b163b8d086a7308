"""Exploring on from what was learnt elsewhere."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mepol
from mepol.cli import main
from mepol.errors import MepolError

SMALL: dict[str, Any] = {
    **{"horizon": 30, "trajectories": 4, "k": 4, "hidden": (8,), "epochs": 2, "threads": 1, "eps": 1e-9},
    **{"evaluation_trajectories": 4, "zero_mean_steps": 0, "mirror": True, "learning_rate": 1e-3, "progress": False},
}
OPEN = {"env_kwargs": {"layout": "open"}}


def same(a: Any, b: Any) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> mepol.Run:
    return mepol.explore("gridworld", out=tmp_path_factory.mktemp("init") / "rooms", **SMALL)


@pytest.mark.parametrize("as_run", [True, False])
def test_it_starts_as_that_policy_whatever_the_settings_of_a_new_one(
    rooms: mepol.Run, tmp_path: Path, as_run: bool
) -> None:
    """Asked to standardise inputs, which would change what a policy does that is not new."""
    other = {**SMALL, **OPEN, "hidden": (20,), "log_std": 2.0, "standardise": True}
    run = mepol.explore("gridworld", init=rooms if as_run else str(rooms.path), out=tmp_path / "on", **other)
    assert same(run.initial, rooms.policy)
    assert run.policy.widths == rooms.policy.widths
    assert not same(run.policy, rooms.policy)
    np.testing.assert_array_equal(run.policy.shift, rooms.policy.shift)
    handed = {**SMALL, **OPEN, "policy": lambda *_: copy.deepcopy(rooms.policy)}
    as_object = mepol.explore("gridworld", out=tmp_path / "object", **handed)
    np.testing.assert_array_equal(run.metrics["entropy"], as_object.metrics["entropy"])
    assert same(run.policy, as_object.policy)


def test_it_goes_on_to_the_same_bits_without_the_run_it_came_from(rooms: mepol.Run, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(rooms.path, source)
    settings = {**SMALL, **OPEN, "init": str(source)}
    whole = mepol.explore("gridworld", out=tmp_path / "whole", **{**settings, "epochs": 4})
    mepol.explore("gridworld", out=tmp_path / "parts", **settings)
    shutil.rmtree(source)
    parts = mepol.resume(tmp_path / "parts", length=4, progress=False)
    assert same(whole.policy, parts.policy)
    np.testing.assert_array_equal(whole.metrics["entropy"], parts.metrics["entropy"])


def test_the_command_takes_a_run_and_a_shipped_one(rooms: mepol.Run, tmp_path: Path) -> None:
    few = ("--epochs", "1", "--horizon", "30", "--trajectories", "4", "--k", "4", "--evaluation-trajectories", "4")
    for init in (str(rooms.path), str(rooms.path / "policy.safetensors"), "zoo:gridworld"):
        out = tmp_path / Path(init).name.replace(":", "-")
        assert main(["explore", "gridworld", "--init", init, "--eps", "1e-9", *few, "--out", str(out)]) == 0
        assert same(mepol.open(out).initial, mepol.open(init).policy if ".safe" not in init else rooms.policy)


@pytest.mark.parametrize(
    ("env", "settings", "why"),
    [
        ("mountain-car", {}, "made for another environment"),
        ("gridworld", {"explorer": "random"}, "init = .* must be 'none' with the explorer random"),
        ("gridworld", {"policy": lambda s, a: mepol.GaussianPolicy(s, a, (8,))}, "beside a policy that was handed in"),
        ("gridworld", {"init": "zoo:nobody"}, "the zoo has no 'nobody'"),
        ("gridworld", {"init": "nowhere"}, "nowhere"),
    ],
)
def test_what_cannot_be_gone_on_from_is_named_before_anything_is_written(
    rooms: mepol.Run, tmp_path: Path, env: str, settings: dict[str, Any], why: str
) -> None:
    with pytest.raises(MepolError, match=why):
        mepol.explore(env, out=tmp_path / "none", **{**SMALL, "init": rooms, **settings})
    assert not (tmp_path / "none").exists()


def test_uniform_actions_cannot_learn_on(tmp_path: Path) -> None:
    uniform = mepol.explore("gridworld", explorer="uniform", out=tmp_path / "uniform", **SMALL)
    with pytest.raises(MepolError, match="a policy that can learn on, not a"):
        mepol.explore("gridworld", init=uniform, out=tmp_path / "none", **SMALL)
    assert not (tmp_path / "none").exists()

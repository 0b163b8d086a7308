"""Objects instead of names: every part of an exploration can be handed in, and is asked for again by a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same import Stopped, assert_same_run, files_of, stop_after
from toy import RULE, WANDERER, Linear, Toy, batched, factory, objective, radius

import mepol
from mepol.errors import ConfigError, EnvironmentFault, PolicyFileError

SMALL: dict[str, Any] = {
    "paper_rule": True,
    "horizon": 30,
    "trajectories": 4,
    "k": 3,
    "eps": 1e-12,
    "learning_rate": 1e-3,
    "max_steps": 3,
    "hidden": (8,),
    "zero_mean_steps": 3,
    "evaluate_every": 1,
    "evaluation_trajectories": 4,
    "threads": 1,
    "progress": False,
}
TOY = "mepol/GridWorld-v0"
# what is explored, the objects beside it, and the setting that names the one that matters
CASES: dict[str, tuple[Any, dict[str, Any], str, str]] = {
    "class": (Toy, {}, "env", "Toy"),
    "factory": (factory, {}, "env", "factory"),
    "vector": (batched, {}, "env", "batched"),
    "features": (TOY, {"features": radius}, "features", "radius"),
    "policy": (TOY, {"policy": Linear}, "policy", "Linear"),
    "rule": (TOY, {"rule": RULE}, "rule", "halved"),
    "explorer": (TOY, {"explorer": WANDERER}, "explorer", "wanderer"),
    "objective": (TOY, {"objective": objective}, "objective", "objective"),
    "all": (Toy, {"features": radius, "policy": Linear, "rule": RULE, "objective": objective}, "env", "Toy"),
}


def objects_of(case: str) -> dict[str, Any]:
    what, objects, *_ = CASES[case]
    return objects if isinstance(what, str) else {"env": what, **objects}


def stopped(case: str, path: Path) -> Path:
    """A run of a case that was stopped after its second epoch."""
    what, objects, *_ = CASES[case]
    with pytest.raises(Stopped):
        mepol.explore(what, epochs=3, out=path, callbacks=[stop_after(1)], **objects, **SMALL)
    return path


@pytest.mark.parametrize("case", CASES)
def test_a_run_of_objects_is_resumed_to_the_same_bits_by_handing_them_in_again(case: str, tmp_path: Path) -> None:
    what, objects, *_ = CASES[case]
    whole = mepol.explore(what, epochs=3, out=tmp_path / "whole", **objects, **SMALL)
    assert whole.metrics["epoch"].tolist() == [0, 1, 2, 3]
    assert np.isfinite(whole.metrics["index"]).all()
    stopped(case, tmp_path / "run")
    resumed = mepol.resume(tmp_path / "run", progress=False, **objects_of(case))
    assert_same_run(tmp_path / "run", whole.path)
    assert resumed.finished
    longer = mepol.resume(whole, length=4, progress=False)  # the run in hand still has them
    assert longer.metrics["epoch"].tolist() == [0, 1, 2, 3, 4]
    assert longer.evaluate(trajectories=3).evaluation.particles == 90
    assert longer.states(trajectories=2, horizon=5).shape == (2, 6, 2)
    assert len(longer.figures()) == 2


@pytest.mark.parametrize("case", CASES)
def test_without_them_the_resume_says_what_is_missing_and_changes_nothing(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mepol.cli import main

    _, _, name, title = CASES[case]
    path = stopped(case, tmp_path / "run")
    before = files_of(path)
    wanted = rf"{name} is '[^']*{title}', an object that no file holds: hand it in again"
    with pytest.raises(ConfigError, match=wanted):
        mepol.resume(path, progress=False)
    capsys.readouterr()
    assert main(["resume", str(path)]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "an object that no file holds: hand it in again" in error
    assert "Traceback" not in error
    assert files_of(path) == before
    run = mepol.open(path)  # but it can be read
    assert run.metrics["epoch"].tolist() == [0, 1]
    assert len(run.figures()) == 2


@pytest.mark.parametrize("case", ["features", "policy", "rule", "explorer", "objective"])
def test_a_run_without_objects_is_not_resumed_with_some(case: str, tmp_path: Path) -> None:
    path = mepol.explore(TOY, epochs=1, out=tmp_path / "run", **SMALL).path
    before = files_of(path)
    with pytest.raises(ConfigError, match=f"{case} is '.*' in this run's settings: it cannot be exchanged"):
        mepol.resume(path, length=2, progress=False, **objects_of(case))
    assert files_of(path) == before


def test_each_object_is_the_one_that_works(tmp_path: Path) -> None:
    plain = mepol.explore(TOY, epochs=2, out=tmp_path / "plain", **SMALL)
    runs = {
        case: mepol.explore(TOY, epochs=2, out=tmp_path / case, **CASES[case][1], **SMALL)
        for case in ("features", "policy", "rule", "explorer", "objective")
    }
    assert isinstance(runs["policy"].policy, Linear)
    assert runs["features"].domain.features(np.array([[3.0, 4.0]])).tolist() == [[5.0]]
    assert runs["explorer"].metrics["samples"].tolist() == [0, 30, 60]
    same = runs["rule"].metrics
    assert same["entropy"].tolist()[:2] == plain.metrics["entropy"].tolist()[:2]  # the same rule by another name
    other = runs["objective"].metrics["entropy"]
    assert other[0] != plain.metrics["entropy"][0]
    assert runs["objective"].metrics["index"][0] == plain.metrics["index"][0]  # measured by the settings' own estimator


def test_a_policy_of_ones_own_class_is_opened_by_handing_it_in(tmp_path: Path) -> None:
    path = mepol.explore(TOY, epochs=1, out=tmp_path / "run", policy=Linear, **SMALL).path
    with pytest.raises(PolicyFileError, match="holds a policy of the class 'Linear', which is not ours: hand one in"):
        _ = mepol.open(path).policy
    run = mepol.open(path, policy=Linear)
    assert isinstance(run.best, Linear)
    assert run.evaluate(trajectories=3).evaluation.particles == 90


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ({"rule": objective}, "rule cannot be a function: it must be a Rule"),
        ({"explorer": Linear}, "explorer cannot be a type: it must be a Kind"),
        ({"policy": 3}, "policy cannot be a int"),
        ({"objective": [1]}, "objective cannot be a list"),
        ({"rule": "downhill"}, "rule = 'downhill'"),
        ({"explorer": "wandrer"}, "explorer = 'wandrer' is not one of"),
    ],
)
def test_what_is_no_such_object_is_refused_by_name(objects: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        mepol.explore(TOY, epochs=1, out=tmp_path / "run", **objects, **SMALL)
    assert not (tmp_path / "run").exists()


def test_what_makes_no_environment_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for what in (3, lambda: "no environment", lambda n: Toy()):
        with pytest.raises(EnvironmentFault):
            mepol.explore(what, epochs=1, out=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run").exists()

"""Runs from pictures: resumed to the bit, measured on the embedding and on the true state, by both rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same import Stopped, assert_same_run, stop_after

import mepol
from camera import Camera
from mepol.algorithm import CategoricalPolicy
from mepol.algorithm.encoder import RandomEncoder
from mepol.errors import ConfigError, PolicyFileError
from mepol.evaluation.measures import measure_states
from mepol.exploration.drive import explore, resume
from mepol.exploration.presets import preset, starting_config
from mepol.exploration.study import study_of
from mepol.run import Run
from mepol.settings import with_settings

SEEN = {"observations": "pixels", "eps": 0.0, "zero_mean_steps": 0, "mirror": True, "max_entropy_drop": 1000.0}


@pytest.mark.parametrize("rule", ["importance", "advantage"])
def test_a_run_is_the_same_on_two_threads_and_resumed(tiny: Callable[..., Any], tmp_path: Path, rule: str) -> None:
    config = tiny(**SEEN, rule=rule, horizon=12, epochs=3, learning_rate=1e-3, noise_correlation=0.3)
    assert config.encoder == "random"
    explore(config, tmp_path / "whole")
    explore(with_settings(config, {"threads": 2}), tmp_path / "two")
    assert_same_run(tmp_path / "whole", tmp_path / "two", settings=False)
    with pytest.raises(Stopped):
        explore(config, tmp_path / "part", callbacks=[stop_after(1)])
    resume(tmp_path / "part")
    assert_same_run(tmp_path / "whole", tmp_path / "part")
    run = Run.open(tmp_path / "whole")
    start, end = run.initial.state_dict(), run.policy.state_dict()
    assert not np.array_equal(start["eye.layers.0.weight"], end["eye.layers.0.weight"])  # the eye learns


def test_both_entropies_are_those_of_the_states_that_were_visited(tiny: Callable[..., Any], tmp_path: Path) -> None:
    explore(tiny(**SEEN, horizon=30, epochs=1), tmp_path / "run")
    run = Run.open(tmp_path / "run")
    with run.working(6) as env:
        batch = run.rollout(env)
    domain = run.domain
    assert isinstance(domain.features, RandomEncoder)
    found = measure_states(batch, domain, k=4)
    rows, truth = (a[:, 1:].reshape(180, -1) for a in (batch.states, batch.truth))
    assert found.index == pytest.approx(mepol.knn_entropy(domain.features(rows), k=4))
    assert found.true_index == pytest.approx(mepol.knn_entropy(truth, k=4))
    cells = np.floor((truth + 6) / 12 * 20).astype(int)
    assert found.cells == len(np.unique(cells, axis=0))
    assert np.isfinite(run.metrics["true_index"][[0, 1]]).all()
    assessed = run.evaluate(trajectories=5, pairs=("y,x",)).evaluation
    assert assessed.true_index is not None
    assert (tmp_path / "run" / "heatmaps").is_dir()
    with pytest.raises(PolicyFileError, match="cannot be exported"):
        run.export("numpy")


@pytest.mark.parametrize("fast", [False, True])
def test_choices_are_made_from_pictures_of_an_environment_of_ones_own(fast: bool, tmp_path: Path) -> None:
    small = {
        "horizon": 20,
        "trajectories": 4,
        "evaluation_trajectories": 4,
        "k": 3,
        "hidden": (8, 8),
        "epochs": 2,
        "threads": 1,
    }
    rule = {} if fast else {"paper_rule": True}
    run = mepol.explore(
        lambda: Camera("dict"), encoder="random", out=tmp_path / "run", progress=False, seed=1, **small, **rule
    )
    assert run.config.ascent.rule == ("advantage" if fast else "importance")
    assert isinstance(run.policy, CategoricalPolicy)
    assert np.isfinite(run.metrics["index"][[0, 2]]).all()
    assert run.metrics["cells"][-1] > 0
    picture = np.zeros((9, 9, 3), np.uint8)
    assert run.policy.act(picture, np.random.default_rng(0)).shape == (1,)


def test_settings_follow_what_is_seen() -> None:
    plain, seen = (starting_config("gridworld", quick=True, **view) for view in ({}, {"observations": "pixels"}))
    assert (plain.policy.scale_inputs, seen.policy.scale_inputs, seen.ceiling) == (True, False, None)
    assert (seen.seen, plain.seen, seen.ascent.learning_rate) == ("pixels", "state", plain.ascent.learning_rate)
    study = study_of({"preset": "gridworld-fast", "settings": {"observations": "pixels", "k": 9}})
    assert next(iter(study.variants.values())) == with_settings(seen, {"k": 9})
    other = starting_config("CarRacing-v3", encoder="random")
    assert (other.seen, other.evaluation.heatmap_axes, other.features) == ("pictures", "0,1", "all")
    study = study_of({"env": "CarRacing-v3", "settings": {"encoder": "random"}})
    assert next(iter(study.variants.values())) == other
    assert preset("gridworld").config.encoder == "none"
    with pytest.raises(ConfigError, match="encoder = 'learnt'"):
        starting_config("gridworld", encoder="learnt")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"features": "x,y"}, "features = x,y is not possible: it must be 'all' with an encoder"),
        ({"scale_inputs": True}, "scale_inputs = True is not possible: it must be off with an encoder"),
        ({"coinciding": "floor"}, "coinciding = floor is not possible"),
        ({"policies": 2}, "policies = 2 is not possible: it must be 1 with an encoder"),
        ({"explorer": "rnd"}, "encoder = random is not possible: it must be 'none' with the explorer rnd"),
    ],
)
def test_what_has_no_meaning_for_pictures_is_refused(
    tiny: Callable[..., Any], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        tiny(**{**SEEN, **changes})


def test_more_pictures_than_memory_should_hold_are_refused_before_anything_is_written(
    tiny: Callable[..., Any], tmp_path: Path
) -> None:
    config = tiny(**SEEN, evaluation_trajectories=20_000, horizon=100)
    with pytest.raises(ConfigError, match=r"evaluation_trajectories = 20000 .* 2 GiB, not 2.5 GiB"):
        explore(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()

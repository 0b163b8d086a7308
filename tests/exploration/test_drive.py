"""Whole explorations: the same seed gives the same digits, and each row describes its own policy."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from same import assert_same_run, files_of, timeless

from mepol import load_policy
from mepol.algorithm.config import AscentConfig, PolicyConfig
from mepol.envs.make import make_env
from mepol.errors import CoincidentParticlesError, ConfigError, EnvironmentFault, RunError
from mepol.exploration.config import EvaluationConfig, ExploreConfig
from mepol.exploration.drive import explore, resume
from mepol.exploration.learner import search
from mepol.exploration.policies import make_policy, standardise_inputs
from mepol.exploration.presets import preset
from mepol.exploration.workshop import domain_of, open_workshop
from mepol.runs.callbacks import Progress
from mepol.runs.machine import MachineConfig
from mepol.runs.streams import Stream, stream
from mepol.sampling.collect import collect


@pytest.mark.parametrize("env", ["mepol/GridWorld-v0", "mepol/MountainCar-v0", "Pendulum-v1"])
def test_the_same_seed_gives_the_same_run(tiny: Callable, tmp_path: Path, env: str) -> None:
    config = tiny(env=env, heatmap_axes="0,1")
    for name in "ab":
        explore(config, tmp_path / name)
    assert_same_run(tmp_path / "a", tmp_path / "b")
    explore(dataclasses.replace(config, seed=8), tmp_path / "c")
    assert timeless(tmp_path / "c") != timeless(tmp_path / "a")
    ours, other = files_of(tmp_path / "a"), files_of(tmp_path / "c")
    assert ours["domain.json"] == other["domain.json"]
    for name in ("policy.safetensors", "initial.safetensors", "best.safetensors"):
        assert ours[name] != other[name]


def test_the_number_of_threads_changes_no_digit(tmp_path: Path) -> None:
    paper = preset("gridworld").config
    config = dataclasses.replace(
        paper,
        epochs=2,
        ascent=dataclasses.replace(paper.ascent, max_steps=3),
        evaluation=dataclasses.replace(paper.evaluation, evaluation_trajectories=5, evaluate_every=0),
    )
    before = torch.get_num_threads()
    for n in (1, 2):
        explore(dataclasses.replace(config, machine=MachineConfig(threads=n)), tmp_path / str(n))
    assert torch.get_num_threads() == before
    assert_same_run(tmp_path / "1", tmp_path / "2", settings=False)


def test_rows_describe_the_policy_that_their_epoch_starts_from(tiny: Callable, tmp_path: Path) -> None:
    """Stop the same run after e epochs: its policy is policy e, from which row e can be computed again."""
    config = tiny(epochs=3, evaluate_every=2)
    whole = explore(config, tmp_path / "whole")
    rows = whole.rows()
    assert [row.epoch for row in rows] == [0, 1, 2, 3]
    assert [row.samples for row in rows] == [0, 240, 480, 720]
    env = make_env(config.env, config.trajectories)
    domain = domain_of(env, config)
    for e in range(4):
        policy = load_policy(explore(dataclasses.replace(config, epochs=e), tmp_path / str(e)).policy_path())
        if e < 3:
            batch = collect(policy, env, config.horizon, seed=stream(config.seed, Stream.BATCH, e))
            assert rows[e].entropy == search(batch, domain, config, -1).entropy()
        if rows[e].index is not None:
            seed = stream(config.seed, Stream.EVALUATION, e)
            with open_workshop(config) as workshop:
                result = workshop.assess(policy, seed).evaluation
            assert (rows[e].index, rows[e].discrete_entropy) == (result.index, result.discrete_entropy)
            assert (rows[e].pooled_entropy, rows[e].cells) == (result.pooled_entropy, result.cells)
            np.testing.assert_array_equal(whole.load_visits(e), result.visits)
    assert [row.epoch for row in rows if row.index is not None] == [0, 2, 3]
    assert whole.evaluated_turns() == [0, 2, 3]


def test_what_was_not_measured_is_empty(tiny: Callable, tmp_path: Path) -> None:
    rows = timeless(explore(tiny(epochs=3), tmp_path / "run").path)
    for row in rows[1:3]:
        assert row["index"] == row["discrete_entropy"] == row["pooled_entropy"] == row["cells"] == ""
    assert all(rows[-1][name] == "" for name in ("entropy", "kl", "steps", "ess", "learning_rate"))
    assert all(row["entropy"] and row["kl"] and row["steps"] and row["ess"] for row in rows[:-1])


def test_no_epochs_measure_the_initial_policy(tiny: Callable, tmp_path: Path) -> None:
    run = explore(tiny(epochs=0), tmp_path / "run")
    (row,) = run.rows()
    assert (row.epoch, row.samples, row.entropy) == (0, 0, None)
    assert row.index is not None
    assert run.policy_path().read_bytes() == run.policy_path("initial").read_bytes()


def test_rows_agree_with_steps(tiny: Callable, tmp_path: Path) -> None:
    run = explore(tiny(epochs=3), tmp_path / "run")
    with (run.path / "steps.csv").open(newline="") as file:
        steps = list(csv.DictReader(file))
    for row in run.rows()[:-1]:
        accepted = [s for s in steps if int(s["epoch"]) == row.epoch and s["accepted"] == "1"]
        assert len(accepted) == row.steps
        assert float(accepted[-1]["kl"]) == row.kl
        assert float(accepted[-1]["ess"]) == row.ess
        assert float(accepted[-1]["learning_rate"]) == row.learning_rate


def test_progress_is_reported_for_every_policy(tiny: Callable, tmp_path: Path) -> None:
    seen: list[Progress] = []
    run = explore(tiny(), tmp_path / "run", report=seen.append)
    assert [progress.row for progress in seen] == run.rows()
    assert ["evaluation" in progress.extra for progress in seen] == [True, False, True]
    assert {progress.length for progress in seen} == {2}


def test_learning_raises_the_entropy_of_a_small_gridworld(tiny: Callable, tmp_path: Path) -> None:
    config = tiny(trajectories=10, horizon=200, epochs=6, hidden=(64, 64), zero_mean_steps=60, max_steps=15, k=10)
    rows = explore(dataclasses.replace(config, seed=1), tmp_path / "run").rows()
    assert rows[-1].index > rows[0].index + 0.3
    assert rows[5].entropy > rows[0].entropy + 0.3


def test_an_existing_run_is_refused_and_left_untouched(tiny: Callable, tmp_path: Path) -> None:
    out = tmp_path / "run"
    explore(tiny(epochs=1), out)
    before = files_of(out)
    with pytest.raises(RunError, match="already exists"):
        explore(tiny(epochs=1), out)
    assert files_of(out) == before


@pytest.mark.parametrize(
    ("changes", "fault", "message"),
    [
        ({"env": "CartPole-v1", "heatmap_axes": "0,1", "noise_correlation": 0.5}, ConfigError, "actions are discrete"),
        ({"env": "NoSuch-v0"}, EnvironmentFault, "NoSuch"),
        ({"env": "not an id"}, EnvironmentFault, "not an id"),
        ({"env": ""}, EnvironmentFault, "no environment is called ''"),
        ({"env": "no_such_module:Env-v0"}, EnvironmentFault, "no_such_module"),
        ({"features": "speed"}, ConfigError, "no feature 'speed'"),
        ({"features": "x,x"}, ConfigError, "twice"),
        ({"heatmap_axes": "x,y,0"}, ConfigError, "twice"),
        ({"heatmap_low": (0.0, 0.0), "heatmap_high": (0.0, 1.0)}, ConfigError, "zero-width"),
        ({"heatmap_low": (float("nan"), 0.0)}, ConfigError, "finite"),
    ],
)
def test_faults_are_named_before_anything_is_written(
    tiny: Callable, tmp_path: Path, changes: dict, fault: type, message: str
) -> None:
    with pytest.raises(fault, match=message):
        explore(tiny(**changes), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


class Wide(gymnasium.Env):
    """Three coordinates: bounded, unbounded, and of no width."""

    action_space = Box(-1.0, 1.0, (1,), np.float32)
    observation_space = Box(np.array([0.0, -np.inf, 1.0]), np.array([10.0, np.inf, 1.0]), dtype=np.float64)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return self.draw(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        return self.draw(), 0.0, False, False, {}

    def draw(self) -> np.ndarray:
        return np.array([self.np_random.uniform(0, 10), self.np_random.normal(), 1.0])


@pytest.fixture
def wide(tiny: Callable) -> Callable[..., ExploreConfig]:
    gymnasium.register("mepol-tests/Wide-v0", entry_point=Wide)
    yield lambda **changes: tiny(**{"env": "mepol-tests/Wide-v0", "heatmap_axes": "0,1", **changes})
    del gymnasium.registry["mepol-tests/Wide-v0"]


@pytest.mark.parametrize(("features", "width"), [("1", "inf"), ("0,1", "inf"), ("2", "0")])
def test_scaling_needs_features_with_a_width(wide: Callable, tmp_path: Path, features: str, width: str) -> None:
    with pytest.raises(ConfigError, match=rf"has width {width}: scale_features bounds needs bounded features"):
        explore(wide(features=features, scale_features="bounds"), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_an_unbounded_range_of_the_heatmap_must_be_given_whole(wide: Callable, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="feature '1' is unbounded: give its range"):
        explore(wide(features="0,1", heatmap_low=(0.0, -3.0)), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    run = explore(wide(features="0,1", epochs=1), tmp_path / "plain")  # neither given nor bounded: no grid
    assert run.rows()[0].index is not None
    assert run.rows()[0].discrete_entropy is None
    assert run.evaluated_turns() == []


def test_scaled_features_change_the_metric_and_keep_raw_units(wide: Callable) -> None:
    config = wide(features="0,1", k=4)
    env = make_env(config.env, 5)
    batch = collect(make_policy(config, domain_of(env, config)), env, 300, seed=stream(0, Stream.BATCH))
    domain = dataclasses.replace(domain_of(env, config), widths=(10.0, 1.0))
    raw = search(batch, domain_of(env, config), config, -1).entropy()
    scaled = search(batch, domain, config, -1).entropy()
    assert scaled == pytest.approx(raw, abs=0.15)
    truth = np.log(10.0) + 0.5 * np.log(2 * np.pi * np.e)
    assert scaled == pytest.approx(truth, abs=0.15)
    assert scaled != raw


def test_a_feature_that_never_moves_is_named(wide: Callable, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"feature 2 is 1 in all"):
        explore(wide(features="all"), tmp_path / "run")


def test_coincident_particles_stop_a_run_with_their_number(tiny: Callable, tmp_path: Path) -> None:
    config = tiny(log_std=-20.0, zero_mean_steps=0, eps=0.0, horizon=400)  # agents walk into a wall and stay
    with pytest.raises(CoincidentParticlesError, match=r"\d+ of \d+ particles coincide with their k=4"):
        explore(config, tmp_path / "run")


def test_inputs_are_scaled_to_plus_minus_one(tiny: Callable) -> None:
    config = tiny(env="mepol/MountainCar-v0", scale_inputs=True, heatmap_axes="0,1")
    policy = make_policy(config, domain_of(make_env(config.env, 1), config))
    corners = np.array([[-1.2, -0.07], [0.45, 0.07]])
    seen = (corners - policy.shift.numpy()) / policy.scale.numpy()
    np.testing.assert_allclose(seen, [[-1, -1], [1, 1]], atol=1e-6)


def standardised(tiny: Callable, **settings: object) -> ExploreConfig:
    config: ExploreConfig = tiny(
        env="mepol/Ant-v0",
        hidden=(16, 16),
        mirror=True,
        standardise=True,
        zero_mean_steps=0,
        heatmap_axes="0,1",
        **settings,
    )
    return config


def test_unbounded_inputs_are_standardised_by_the_first_batch(tiny: Callable, tmp_path: Path) -> None:
    config = standardised(tiny, input_range=2.0, features="x,y", epochs=1)
    run = explore(config, tmp_path / "run")
    env = make_env(config.env, config.trajectories)
    first = collect(
        load_policy(run.policy_path("initial")), env, config.horizon, seed=stream(config.seed, Stream.BATCH)
    )
    policy = load_policy(run.policy_path())
    seen = (first.states[:, :-1].reshape(-1, first.states.shape[-1]) - policy.shift.numpy()) / policy.scale.numpy()
    np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(seen.std(axis=0), 2, rtol=1e-4)


def test_standardising_does_not_change_what_a_mirrored_policy_does(tiny: Callable) -> None:
    config = standardised(tiny)
    env = make_env(config.env, config.trajectories)
    domain = domain_of(env, config)
    policy = make_policy(config, domain)
    before = collect(policy, env, config.horizon, seed=stream(0, Stream.BATCH))
    standardise_inputs(policy, before, domain, 1.0)
    after = collect(policy, env, config.horizon, seed=stream(0, Stream.BATCH))
    np.testing.assert_allclose(after.actions, before.actions, atol=1e-5)


def test_bounded_inputs_are_left_to_scale_inputs(tiny: Callable) -> None:
    config = tiny(env="mepol/MountainCar-v0", hidden=(16,), mirror=True, heatmap_axes="0,1")
    env = make_env(config.env, config.trajectories)
    domain = domain_of(env, config)
    policy = make_policy(config, domain)
    standardise_inputs(policy, collect(policy, env, 20, seed=stream(0, Stream.BATCH)), domain, 1.0)
    assert torch.equal(policy.scale, torch.ones(2))
    assert torch.equal(policy.shift, torch.zeros(2))


def test_a_standardised_run_goes_on_after_a_stop_as_if_there_had_been_none(tiny: Callable, tmp_path: Path) -> None:
    config = standardised(tiny, features="x,y")
    explore(dataclasses.replace(config, epochs=3), tmp_path / "whole")
    explore(dataclasses.replace(config, epochs=1), tmp_path / "parts")
    resume(tmp_path / "parts", length=3)
    assert_same_run(tmp_path / "parts", tmp_path / "whole", settings=False, but=("best.safetensors",), old_end=1)


def test_streams_are_independent_of_each_other() -> None:
    words = {tuple(stream(s, which, e).generate_state(4)) for s in (0, 1) for which in Stream for e in (0, 1)}
    assert len(words) == 4 * len(Stream)


def test_the_saved_policy_is_the_learnt_one(tiny: Callable, tmp_path: Path) -> None:
    run = explore(tiny(), tmp_path / "run")
    seen: list[Progress] = []
    again = explore(tiny(), tmp_path / "again", callbacks=(seen.append,))
    saved = load_policy(run.policy_path()).state_dict()
    assert all(torch.equal(saved[name], tensor) for name, tensor in seen[-1].policy.state_dict().items())
    assert run.policy_path().read_bytes() == again.policy_path().read_bytes()
    assert run.policy_path().read_bytes() != run.policy_path("initial").read_bytes()


def test_a_config_made_by_hand_runs(tmp_path: Path) -> None:
    config = ExploreConfig(
        env="Pendulum-v1",
        features="0:2",
        horizon=30,
        trajectories=2,
        epochs=1,
        machine=MachineConfig(threads=1),
        ascent=AscentConfig(max_steps=1),
        policy=PolicyConfig(zero_mean_steps=5),
        evaluation=EvaluationConfig(evaluation_trajectories=2),
    )
    assert len(explore(config, tmp_path / "run").rows()) == 2

"""Settings: JSON and back, and impossible ones refused by field and value."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from mepol.algorithm.config import AscentConfig, PolicyConfig
from mepol.errors import ConfigError, RunError
from mepol.exploration.config import EvaluationConfig, ExploreConfig
from mepol.exploration.presets import PRESETS
from mepol.runs.directory import RunDirectory
from mepol.runs.machine import MachineConfig
from mepol.settings import from_json, to_json

GOOD = ExploreConfig(env="mepol/GridWorld-v0")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_json(name: str) -> None:
    config = PRESETS[name].config
    assert from_json(ExploreConfig, to_json(config)) == config


def test_settings_off_their_defaults_survive_json() -> None:
    config = ExploreConfig(
        env="x",
        features="0:3,yaw",
        seed=2**63 - 1,
        ascent=AscentConfig(k=7, learning_rate=1.2345678901234567e-5, optimiser="sgd", eps=1e-300),
        policy=PolicyConfig(hidden=(), scale_inputs=True),
        evaluation=EvaluationConfig(heatmap_low=(-1.0, 0.1), heatmap_bins=(1, 4096)),
        ceiling=-1.465,
    )
    again = from_json(ExploreConfig, to_json(config))
    assert again == config
    assert again.evaluation.heatmap_low == (-1.0, 0.1)
    assert again.policy.hidden == ()


# Each field with values just outside its limits and, in the last column, a value on the limit that is allowed.
LIMITS: list[tuple[type, str, list[Any], Any]] = [
    (AscentConfig, "k", [-1, -50], 0),
    (AscentConfig, "kl_threshold", [0.0, -1.0, math.nan], 1e-9),
    (AscentConfig, "learning_rate", [0.0, -1e-5, math.inf, math.nan, 1e31], 1e-300),
    (AscentConfig, "max_steps", [0, -1], 1),
    (AscentConfig, "max_backtracks", [-1], 0),
    (AscentConfig, "eps", [-1e-15, math.inf, math.nan], 0.0),
    (PolicyConfig, "hidden", [(0,), (300, -1), (65537,)], (65536,)),
    (PolicyConfig, "log_std", [-21.0, 6.0, math.nan, math.inf], -20.0),
    (PolicyConfig, "zero_mean_steps", [-1], 0),
    (EvaluationConfig, "evaluate_every", [-1], 0),
    (EvaluationConfig, "evaluation_trajectories", [0, -5], 1),
    (EvaluationConfig, "heatmap_bins", [(0, 5), (5, 0), (4097, 5), (-1, -1)], (1, 4096)),
    (ExploreConfig, "horizon", [0, -1], 1),
    (ExploreConfig, "trajectories", [0, -1], 1),
    (ExploreConfig, "epochs", [-1], 0),
    (ExploreConfig, "seed", [-1, 2**63], 2**63 - 1),
    (MachineConfig, "threads", [-1], 0),
    (MachineConfig, "env_time_limit", [-1.0, math.inf, math.nan], 0.0),
    (AscentConfig, "max_entropy_drop", [0.0, -1.0, math.nan], 1e-9),
    (MachineConfig, "checkpoint_epochs", [0, -1], 1),
    (MachineConfig, "checkpoint_minutes", [-1.0, math.nan], 0.0),
]


@pytest.mark.parametrize(
    ("kind", "name", "value"), [(kind, name, bad) for kind, name, values, _ in LIMITS for bad in values]
)
def test_an_impossible_value_is_named_with_its_field(kind: type, name: str, value: Any) -> None:
    needed = {"env": "x"} if kind is ExploreConfig else {}
    with pytest.raises(ConfigError) as caught:
        kind(**needed, **{name: value})
    assert str(caught.value).startswith(f"{name} = {value} is not possible: it must be ")


@pytest.mark.parametrize(("kind", "name", "value"), [(kind, name, edge) for kind, name, _, edge in LIMITS])
def test_a_value_on_the_limit_is_allowed(kind: type, name: str, value: Any) -> None:
    needed = {"env": "x"} if kind is ExploreConfig else {}
    assert getattr(kind(**needed, **{name: value}), name) == value


def test_k_must_be_below_the_particles_of_a_batch() -> None:
    ascent = AscentConfig(k=50)
    with pytest.raises(ConfigError, match="k = 50 is not possible: it must be below the 50 particles of 5 traj"):
        ExploreConfig(env="x", horizon=10, trajectories=5, ascent=ascent)
    assert ExploreConfig(env="x", horizon=51, trajectories=1, ascent=ascent).ascent.k == 50


def test_k_must_be_below_the_particles_of_an_evaluation() -> None:
    """Otherwise the run would stop at its first evaluation, after its directory was made."""
    settings = {"horizon": 50, "trajectories": 20, "ascent": AscentConfig(k=50)}
    with pytest.raises(ConfigError, match=r"evaluation_trajectories = 1 is not possible.* k = 50"):
        ExploreConfig(env="x", **settings, evaluation=EvaluationConfig(evaluation_trajectories=1))
    ExploreConfig(env="x", **settings, evaluation=EvaluationConfig(evaluation_trajectories=2))


def test_what_maxent_cannot_use_is_refused_instead_of_ignored() -> None:
    for policy in (PolicyConfig(hidden=(8,), mirror=True), PolicyConfig(hidden=(8,), mirror=True, standardise=True)):
        with pytest.raises(ConfigError, match="mirror = True is not possible: it must be off with the explorer maxent"):
            ExploreConfig(env="mepol/GridWorld-v0", explorer="maxent", policy=policy)
        assert ExploreConfig(env="mepol/GridWorld-v0", explorer="random", policy=policy).policy.mirror


def changed(path: str, value: Any) -> str:
    data = json.loads(to_json(GOOD))
    *rooms, name = path.split(".")
    at = data
    for room in rooms:
        at = at[room]
    at[name] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("horizon", "500", r"horizon = '500' is not of type int"),
        ("horizon", 500.0, r"horizon = 500.0 is not of type int"),
        ("horizon", True, r"horizon = True is not of type int"),
        ("horizon", None, r"horizon = None is not of type int"),
        ("env", 3, r"env = 3 is not of type str"),
        ("ignore_termination", 1, r"ignore_termination = 1 is not of type bool"),
        ("ascent", [1], r"ascent must be an object"),
        ("ascent.k", "4", r"ascent.k = '4' is not of type int"),
        ("ascent.kl_threshold", "15", r"kl_threshold = '15' is not of type float"),
        ("ascent.kl_threshold", True, r"kl_threshold = True is not of type float"),
        ("ascent.optimiser", "rmsprop", r"optimiser = 'rmsprop' is not one of 'adam', 'sgd'"),
        ("ascent.optimiser", ["adam"], r"optimiser = \['adam'\] is not one of"),
        ("policy.hidden", 300, r"hidden must be a list, not 300"),
        ("policy.hidden", [300, "300"], r"hidden\[1\] = '300' is not of type int"),
        ("evaluation.heatmap_bins", [20], r"heatmap_bins needs 2 values, not 1"),
        ("evaluation.heatmap_low", [0.0, "a"], r"heatmap_low\[1\] = 'a'"),
        ("ceiling", "high", r"ceiling = 'high' is not of type float"),
        ("surprise", 1, r"has no setting 'surprise'"),
        ("ascent.surprise", 1, r"ascent has no setting 'surprise'; it has k, "),
        ("horizon", 0, r"horizon = 0 is not possible"),
        ("ascent.k", -1, r"k = -1 is not possible"),
        ("ascent.learning_rate", math.nan, r"learning_rate = nan is not possible"),
    ],
)
def test_json_of_another_kind_is_refused(path: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_json(ExploreConfig, changed(path, value))


def test_whole_numbers_are_floats_too() -> None:
    config = from_json(ExploreConfig, changed("ascent.kl_threshold", 15))
    assert type(config.ascent.kl_threshold) is float


def test_a_missing_field_is_named() -> None:
    with pytest.raises(ConfigError, match="ExploreConfig lacks 'env'"):
        from_json(ExploreConfig, "{}")
    assert from_json(ExploreConfig, '{"env": "x"}') == ExploreConfig(env="x")


@pytest.mark.parametrize("text", ["", "{", "nonsense", "[" * 100_000, "[]", "3", "null"])
def test_text_that_is_no_config_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        from_json(ExploreConfig, text)


def test_a_file_s_faults_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with pytest.raises(RunError, match=r"is not a run directory: it has no config\.json"):
        RunDirectory.open(tmp_path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"cannot read .*config\.json"):
        RunDirectory.open(tmp_path)
    path.write_text('{"explorer": "mepol", "env": 3}')
    with pytest.raises(ConfigError, match=r"config\.json: ExploreConfig\.env = 3"):
        RunDirectory.open(tmp_path)
    path.write_text('{"env": "x"}')  # it could be of either phase
    with pytest.raises(RunError, match=r"config\.json: its config\.json is of no known kind of run"):
        RunDirectory.open(tmp_path)
    path.write_text(to_json(GOOD))
    assert RunDirectory.open(tmp_path).config == GOOD


def test_configs_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        GOOD.horizon = 3  # type: ignore[misc]

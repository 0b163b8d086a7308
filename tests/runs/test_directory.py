"""The run directory: what goes in comes out, and nothing is ever overwritten."""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import gymnasium.envs.classic_control.cartpole  # noqa: F401  loaded before a file names it
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mepol.algorithm import Epoch, Step
from mepol.errors import ConfigError, MepolError, PolicyFileError, RunError
from mepol.exploration.learner import steps_of
from mepol.exploration.rows import EXPLORE, MetricsRow
from mepol.runs.directory import RunDirectory
from mepol.runs.policies import load_policy, policy_bytes

METRICS = EXPLORE.metrics


def create(path: Path, config: object) -> RunDirectory:
    with RunDirectory.create(path, EXPLORE, config, "{}") as run:
        return run


@pytest.fixture
def run(tmp_path: Path, tiny: Callable) -> RunDirectory:
    return create(tmp_path / "run", tiny())


def test_a_run_is_opened_with_the_config_it_was_made_with(run: RunDirectory, tiny: Callable) -> None:
    opened = RunDirectory.open(run.path)
    assert opened == run
    assert opened.config == tiny()
    assert opened.rows() == []


def test_the_columns_of_metrics_csv(run: RunDirectory) -> None:
    header = (run.path / "metrics.csv").read_text().splitlines()[0].split(",")
    wanted = ["epoch", "samples", "entropy", "kl", "steps", "ess", "learning_rate", "sample_s", "knn_s", "optimise_s"]
    assert header[:10] == wanted
    assert tuple(header) == METRICS.columns
    assert [name for name in header if name.endswith("_s")] == ["sample_s", "knn_s", "optimise_s"]


finite = st.none() | st.floats(-1e100, 1e100)  # beyond, tables refuse them: figures cannot show them


@given(entropy=finite, kl=finite, index=finite, steps=st.none() | st.integers(0, 100), cells=st.none() | st.integers(0))
def test_rows_come_back_to_the_last_digit(
    tmp_path_factory: pytest.TempPathFactory, entropy: object, kl: object, index: object, steps: object, cells: object
) -> None:
    path = tmp_path_factory.mktemp("rows")
    (path / "metrics.csv").write_text(METRICS.head)
    run = RunDirectory(path, EXPLORE, None, "")  # type: ignore[arg-type]
    rows = [
        MetricsRow(0, 0, entropy=entropy, kl=kl, steps=steps, index=index, cells=cells),  # type: ignore[arg-type]
        MetricsRow(1, 240),
    ]
    for row in rows:
        run.append(row)
    assert run.rows() == rows


def test_what_was_not_measured_is_empty(run: RunDirectory) -> None:
    run.append(MetricsRow(3, 720, entropy=1.5))
    cells = (run.path / "metrics.csv").read_text().splitlines()[1].split(",")
    assert cells[:3] == ["3", "720", "1.5"]
    assert set(cells[3:]) == {""}


@pytest.mark.parametrize("text", ["x,0", "0,1.5", "0", "0,0,abc"])
def test_a_line_that_is_no_row_is_named(run: RunDirectory, text: str) -> None:
    path = run.path / "metrics.csv"
    run.append(MetricsRow(0, 0))
    missing = len(METRICS.columns) - text.count(",") - 1
    path.write_text(path.read_text() + text + ("," * missing if text != "0" else "") + "\n")
    with pytest.raises(RunError, match=r"metrics\.csv, line 3"):
        METRICS.read(path)


@pytest.mark.parametrize("data", [b"", b"epoch\n", b"epoch,samples,other\n", b"\xff\xfe\x00\x01", b"\x00" * 50])
def test_another_file_is_no_metrics_csv(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "metrics.csv"
    path.write_bytes(data)
    with pytest.raises(RunError, match=r"metrics\.csv"):
        METRICS.read(path)
    with pytest.raises(RunError, match="cannot read"):
        METRICS.read(tmp_path / "missing.csv")


def test_steps_are_listed_as_tried(run: RunDirectory) -> None:
    steps = (Step(True, 1e-5, 1.25, 0.1, 20.0), Step(False, 5e-6, math.nan, math.inf, 1.0))
    run.append(MetricsRow(4, 24), steps_of(Epoch(4, 24, 1.0, steps)))
    assert (run.path / "steps.csv").read_text().splitlines() == [
        "epoch,step,accepted,learning_rate,entropy,kl,ess",
        "4,0,1,1e-05,1.25,0.1,20.0",
        "4,1,0,5e-06,nan,inf,1.0",
    ]


def test_visits_come_back(run: RunDirectory) -> None:
    visits = np.random.default_rng(0).integers(0, 10**12, (3, 5))
    run.save_visits(30, visits)
    run.save_visits(0, visits[:1])
    np.testing.assert_array_equal(run.load_visits(30), visits)
    np.testing.assert_array_equal(run.load_visits(0), visits[:1])
    assert run.evaluated_turns() == [0, 30]


def test_the_newest_policy_comes_back(run: RunDirectory, make_policy: Callable) -> None:
    run.save_policy(policy_bytes(make_policy(seed=1)))
    run.save_policy(policy_bytes(make_policy(seed=2)))
    assert torch.equal(load_policy(run.policy_path()).layers[0].weight, make_policy(seed=2).layers[0].weight)
    run.policy_path().write_bytes(run.policy_path().read_bytes()[:-5])
    with pytest.raises(PolicyFileError):
        load_policy(run.policy_path())


def test_a_directory_that_holds_anything_is_refused_and_left_alone(tmp_path: Path, tiny: Callable) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious").write_text("data")
    with pytest.raises(RunError, match="already exists and is not empty"):
        create(out, tiny())
    assert [p.name for p in out.iterdir()] == ["precious"]
    assert (out / "precious").read_text() == "data"
    with pytest.raises(RunError):
        create(out / "precious", tiny())
    with pytest.raises(RunError):
        create(out / "precious" / "below", tiny())
    assert (out / "precious").read_text() == "data"


def test_an_empty_directory_is_used(tmp_path: Path, tiny: Callable) -> None:
    (tmp_path / "out").mkdir()
    assert RunDirectory.open(create(tmp_path / "out", tiny()).path).config == tiny()


def test_an_impossible_name_is_refused(tmp_path: Path, tiny: Callable) -> None:
    with pytest.raises(MepolError):
        create(tmp_path / ("x" * 300), tiny())
    with pytest.raises(MepolError):
        RunDirectory.open(tmp_path / ("x" * 300))


@pytest.mark.parametrize("name", ["missing", "."])
def test_what_is_no_run_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunError, match=r"is not a run directory: it has no config\.json"):
        RunDirectory.open(tmp_path / name)


def test_a_broken_config_is_refused_by_name(run: RunDirectory) -> None:
    (run.path / "config.json").write_text('{"explorer": "mepol", "env": "x", "horizon": -5}')
    with pytest.raises(ConfigError, match=r"config\.json: horizon = -5"):
        RunDirectory.open(run.path)


def test_a_stored_run_imports_no_module_unasked(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    config = json.loads((run.path / "config.json").read_text())
    (run.path / "config.json").write_text(json.dumps({**config, "env": "antigravity:Flight-v0"}))
    with pytest.raises(RunError, match="runs code of the module 'antigravity'; if you trust it"):
        RunDirectory.open(run.path)
    assert "antigravity" not in sys.modules
    monkeypatch.setenv("MEPOL_MODULES", "other,antigravity")
    assert RunDirectory.open(run.path).config.env == "antigravity:Flight-v0"


@pytest.mark.parametrize(
    "name", ["os:system", "subprocess:getoutput", "torch:load", "mepol.api:explore", "builtins:eval"]
)
def test_a_loaded_function_that_makes_no_environment_is_never_called(run: RunDirectory, name: str) -> None:
    """Its arguments would come out of the same file."""
    config = json.loads((run.path / "config.json").read_text())
    trap = run.path.parent / "trap"
    for forged in ({"env": name, "env_kwargs": {"command": f"touch {trap}"}}, {"wrappers": [name]}):
        (run.path / "config.json").write_text(json.dumps({**config, **forged}))
        with pytest.raises(RunError, match=f"asks for '{name}', which runs code of the module"):
            RunDirectory.open(run.path)
    assert not trap.exists()


def test_a_loaded_environment_and_the_users_own_function_are_trusted(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_module.py").write_text("from os import system\ndef make():\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("own_module")
    config = json.loads((run.path / "config.json").read_text())
    loaded = ["gymnasium.envs.classic_control.cartpole:CartPoleEnv", "own_module:make", "own_module:Registered-v0"]
    for name in loaded:
        (run.path / "config.json").write_text(json.dumps({**config, "env": name}))
        assert RunDirectory.open(run.path).config.env == name
    (run.path / "config.json").write_text(json.dumps({**config, "env": "own_module:system"}))
    with pytest.raises(RunError, match="runs code of the module 'own_module'"):
        RunDirectory.open(run.path)
    monkeypatch.delitem(sys.modules, "own_module")


def test_a_rewound_run_keeps_the_steps_that_led_nowhere(run: RunDirectory) -> None:
    """A step that was tried and taken back may have no finite entropy or KL; it is part of the record all the same."""
    steps = (Step(True, 1e-5, 1.25, 0.1, 20.0), Step(False, 5e-6, math.nan, math.inf, 1.0))
    for epoch in (0, 1):
        run.append(MetricsRow(epoch, 24 * epoch), steps_of(Epoch(epoch, 24, 1.0, steps)))
    whole = (run.path / "steps.csv").read_text().splitlines()
    run.rewind(1)
    assert (run.path / "steps.csv").read_text().splitlines() == whole[:3]
    assert [row.epoch for row in run.rows()] == [0]


def test_a_run_without_its_steps_goes_on_with_a_new_table_of_them(run: RunDirectory) -> None:
    """They are the longest table, so they are what somebody leaves out when a run is kept; a link is no such thing."""
    run.append(MetricsRow(0, 0), steps_of(Epoch(0, 24, 1.0, (Step(True, 1e-5, 1.25, 0.1, 20.0),))))
    head = (run.path / "steps.csv").read_text().splitlines()[0]
    (run.path / "steps.csv").unlink()
    (run.path / "steps.csv").symlink_to("nowhere")
    with pytest.raises(RunError, match=r"steps\.csv"):
        run.rewind(1)
    (run.path / "steps.csv").unlink()
    run.rewind(1)
    assert (run.path / "steps.csv").read_text() == head + "\n"
    assert [row.epoch for row in run.rows()] == [0]

"""The zoo: every shipped policy is what its card says, and is taken wherever a run or a policy is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

import mepol
from mepol.cli import main
from mepol.errors import RunError
from mepol.exploration.presets import PRESETS, starting_config
from mepol.runs.zoo import SHIPPED, run_place, shipped_names
from mepol.settings import with_settings
from mepol.zoo.card import command_of
from mepol.zoo.entry import FILES, card_of, missing, results_of

LIGHT = ("gridworld", "mountain-car", "mountain-car-tuned")
HEAVY = tuple(name for name in shipped_names() if name not in LIGHT)


def reproduces(name: str) -> None:
    found = results_of(name)["measured"]["repeat"]
    index = mepol.evaluate(f"zoo:{name}", trajectories=found["trajectories"], seed=1000).evaluation.index
    assert found["low"] < index < found["high"]
    assert found["high"] - found["low"] < 4.5  # mountain-car-tuned: some of its particles nearly coincide


@pytest.mark.parametrize("name", LIGHT)
def test_a_shipped_policy_reproduces_the_index_of_its_card(name: str):
    reproduces(name)


@pytest.mark.torture
@pytest.mark.parametrize("name", HEAVY)
def test_every_other_shipped_policy_does_too(name: str):
    reproduces(name)


def test_an_untrained_policy_lies_outside_the_interval():
    found = results_of("gridworld")["measured"]["repeat"]
    run = mepol.open("zoo:gridworld")
    random = mepol.evaluate(
        mepol.GaussianPolicy(2, 2), "gridworld", trajectories=found["trajectories"], seed=1000, eps=1e-9
    )
    assert run.config.ascent.k == random.evaluation.k
    assert random.evaluation.index < found["low"]


@pytest.mark.parametrize("name", shipped_names())
def test_every_entry_loads_and_its_card_says_what_its_results_say(name: str):
    run, results = mepol.open(f"zoo:{name}"), results_of(name)
    assert results["command"] == command_of(run.config)  # also once a preset has changed
    policy = mepol.load_policy(f"zoo:{name}")
    assert policy.widths == run.policy.widths
    assert policy.widths[0] == run.domain.state_dim
    _, front, body = card_of(name).split("---\n", 2)
    card = yaml.safe_load(front)
    assert card["library_name"] == "mepol"
    (model,) = card["model-index"]
    (result,) = model["results"]
    shown = {metric["type"]: metric["value"] for metric in result["metrics"]}
    assert shown == {key: value for key, value in results["measured"].items() if key in shown}
    assert {"index", "discrete_entropy", "goal_hit_rate"} <= set(shown)
    assert (model["name"], result["dataset"]["type"]) == (name, run.config.env)
    assert results["command"] in body
    assert results["samples"] == run.metrics["samples"][results["epoch"]]
    assert {path.name for path in (SHIPPED / name).iterdir()} == set(FILES)
    with Image.open(SHIPPED / name / "replay.gif") as film:
        assert film.n_frames > 5


def test_the_zoo_is_small_and_knows_which_presets_it_lacks():
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()) < 6e6
    base = {name for name in PRESETS if not name.endswith("-fast")}
    assert set(shipped_names()) <= set(PRESETS)
    assert set(missing()) == base - set(shipped_names())


@pytest.mark.parametrize("name", ["../data/ant", "..", "", "/etc", "ant/../ant", ".", "ant\0", "ant/"])
def test_a_hostile_name_is_refused(name: str):
    with pytest.raises(RunError, match="the zoo has no"):
        run_place(f"zoo:{name}")


def test_a_misspelt_name_is_told_the_nearest(capsys: pytest.CaptureFixture[str]):
    assert main(["evaluate", "zoo:gridwrld"]) == 1
    assert "did you mean zoo:gridworld?" in capsys.readouterr().err


def test_nothing_is_written_to_a_shipped_run(capsys: pytest.CaptureFixture[str]):
    before = sorted(SHIPPED.rglob("*"))
    for words in (["resume", "zoo:gridworld"], ["goals", "zoo:gridworld"], ["heatmaps", "zoo:gridworld"]):
        assert main(words) == 1
        assert "mepol zoo get gridworld DIR" in capsys.readouterr().err
    assert sorted(SHIPPED.rglob("*")) == before


def test_get_copies_an_entry_as_a_run_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "mine"
    assert main(["zoo", "get", "gridworld", str(out)]) == 0
    assert main(["zoo", "get", "gridworld", str(out)]) == 1  # never over what is there
    assert "is not empty" in capsys.readouterr().err
    states = np.random.default_rng(0).normal(size=(4, 2))
    mine, shipped = mepol.open(out), mepol.open("zoo:gridworld")
    assert mine.evaluate(trajectories=2).evaluation.index == shipped.evaluate(trajectories=2).evaluation.index
    assert np.array_equal(
        mine.policy.act(states, np.random.default_rng(1)), shipped.policy.act(states, np.random.default_rng(1))
    )


def test_a_task_starts_from_the_zoo(tmp_path: Path):
    settings = {"horizon": 40, "trpo.steps": 80, "progress": False, "iterations": 1}
    run = mepol.finetune("grid-goal1", init="zoo:gridworld", out=tmp_path / "task", **settings)
    first = mepol.load_policy("zoo:gridworld").state_dict()
    assert all((tensor == first[name]).all() for name, tensor in run.initial.state_dict().items())
    assert run.config.init == "zoo:gridworld"
    assert run.protocol.k == mepol.open("zoo:gridworld").config.ascent.k


def test_export_writes_the_same_for_a_run_of_ones_own(tmp_path: Path, tiny, capsys: pytest.CaptureFixture[str]):
    from mepol.exploration.drive import explore

    explore(tiny(evaluate_every=1), tmp_path / "run")
    out = tmp_path / "card"
    assert main(["zoo", "export", str(tmp_path / "run"), str(out)]) == 0
    assert {path.name for path in out.iterdir()} == set(FILES)
    results = json.loads((out / "results.json").read_text())
    run = mepol.open(out)
    assert results["measured"]["index"] == run.evaluate(trajectories=100).evaluation.index
    assert results["samples"] == results["epoch"] * 4 * 60
    assert yaml.safe_load((out / "README.md").read_text().split("---\n")[1])["model-index"][0]["name"] == "card"
    capsys.readouterr()
    assert main(["zoo", "export", str(tmp_path / "run"), str(out)]) == 1
    assert "is not empty" in capsys.readouterr().err


def test_the_command_of_a_card_makes_the_same_settings(tmp_path: Path):
    config = mepol.open("zoo:ant-xy").config
    words = command_of(config).split()
    assert words[:2] == ["mepol", "explore"]
    out = tmp_path / "again"
    assert main([*words[1:], "--epochs", "0", "--evaluation-trajectories", "2", "--out", str(out)]) == 0
    again = mepol.open(out).config
    assert (again.ascent, again.policy, again.critic) == (config.ascent, config.policy, config.critic)
    assert (again.features, again.horizon, again.trajectories) == (config.features, config.horizon, config.trajectories)


def test_the_command_of_a_class_of_environments_names_its_preset():
    config = with_settings(starting_config("multigrid", quick=True), {"risk": 0.35})
    command = command_of(config)
    assert command.startswith("mepol explore multigrid-fast ")
    assert "--risk 0.35" in command
    assert "{" not in command


def test_the_command_of_arguments_gives_them_one_by_one():
    config = with_settings(starting_config("gridworld"), {"env_kwargs": {"layout": "open", "slope": "east"}})
    assert '--env-arg layout="open" --env-arg slope="east"' in command_of(config)

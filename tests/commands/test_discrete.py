"""Discrete actions from the command line: explored by both rules, measured, filmed, fine-tuned."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from mepol import load_policy
from mepol.algorithm import CategoricalPolicy
from mepol.cli import main
from mepol.run import Run

SMALL = [
    *("--horizon", "40", "--trajectories", "4", "--k", "4", "--max-steps", "3", "--threads", "1", "--seed", "3"),
    *("--epochs", "3", "--hidden", "16", "16", "--evaluation-trajectories", "5", "--learning-rate", "1e-3"),
    *("--eps", "1e-12", "--max-entropy-drop", "1000", "--evaluate-every", "2", "--zero-mean-steps", "5"),
]
TOY = """
import gymnasium, numpy as np
from gymnasium.spaces import Box, MultiDiscrete
class Toy(gymnasium.Env):
    observation_space = Box(-5.0, 5.0, (2,), np.float64)
    action_space = MultiDiscrete([3, 2], start=[-1, 4])
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.uniform(-0.1, 0.1, 2)
        return self.at.copy(), {}
    def step(self, action):
        assert self.action_space.contains(action)
        self.at = np.clip(self.at + 0.1 * (action - np.array([0, 4.5])) + self.np_random.normal(0, 0.02, 2), -5, 5)
        return self.at.copy(), 0.0, False, False, {}
class Double(gymnasium.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.observation_space = Box(-10.0, 10.0, (2,), np.float64)
    def observation(self, obs):
        return 2 * obs
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "discrete_toy.py").write_text(TOY)
    (tmp_path / "discrete_goal.py").write_text("def right(states):\n    return states[:, 0] > 0.05\n")
    yield tmp_path
    for module in ("discrete_toy", "discrete_goal"):
        sys.modules.pop(module, None)


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(arguments) != 0
    err = capsys.readouterr().err
    assert err.startswith("mepol: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("name", ["CartPole-v1", "Acrobot-v1", "discrete_toy:Toy"])
@pytest.mark.parametrize("fast", [[], ["--fast"]], ids=["importance", "advantage"])
def test_an_environment_of_choices_is_explored_by_one_command(here: Path, name: str, fast: list[str]) -> None:
    assert main(["explore", name, *fast, *SMALL, "--out", "run"]) == 0
    run = Run.open("run")
    assert run.finished
    assert run.domain.choices == {"CartPole-v1": (2,), "Acrobot-v1": (3,), "discrete_toy:Toy": (3, 2)}[name]
    for which in ("last", "best", "initial"):
        assert isinstance(run.load(which), CategoricalPolicy)
    start, end = run.initial.state_dict(), run.policy.state_dict()
    assert any(not np.array_equal(start[key].numpy(), end[key].numpy()) for key in start)
    assert np.isfinite(run.metrics["index"][[0, 2, 3]]).all()


def test_such_a_run_is_measured_filmed_and_asked_for_goals(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "MountainCar-v0", *SMALL, "--fast", "--epochs", "1", "--out", "run"]) == 0
    capsys.readouterr()
    assert main(["evaluate", "run", "--trajectories", "5", "--json"]) == 0
    first = capsys.readouterr().out
    assert main(["evaluate", "run", "--trajectories", "5", "--json"]) == 0
    assert capsys.readouterr().out == first
    assert main(["goals", "run", "--trajectories", "5"]) == 0
    assert main(["video", "run", "--steps", "3"]) == 0
    assert Path("run/figures/policy.mp4").stat().st_size > 1000


def test_random_and_uniform_play_are_measured(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for explorer in ("random", "uniform"):
        assert main(["explore", "discrete_toy:Toy", *SMALL, "--explorer", explorer, "--out", explorer]) == 0
    uniform = load_policy("uniform/policy.safetensors")
    actions = uniform.act(np.random.default_rng(0).normal(0, 3, (6000, 2)), np.random.default_rng(1))
    share = np.array([(actions[:, 0] == i).mean() for i in range(3)])
    assert np.abs(share - 1 / 3).max() < 4.5 * np.sqrt(2 / 9 / 6000)
    near = load_policy("random/policy.safetensors")
    assert not np.array_equal(near.layers[-1].weight.detach(), uniform.layers[-1].weight.detach())


def test_what_needs_real_numbers_is_refused_in_one_sentence(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = ["explore", "discrete_toy:Toy", *SMALL, "--out", "x"]
    assert "must be 0 where actions are discrete" in refused([*name, "--noise-correlation", "0.5"], capsys)
    assert "its policies are Gaussians" in refused([*name, "--explorer", "maxent"], capsys)
    task = ["finetune", "discrete_goal:right", "--env", "CartPole-v1", "--out", "x", "--algo", "sac"]
    assert "algo = 'sac' is not possible with discrete actions" in refused(task, capsys)
    assert not Path("x").exists()


@pytest.mark.parametrize("algo", ["trpo", "ppo"])
def test_fine_tuning_begins_as_the_exploration_policy(here: Path, algo: str) -> None:
    assert main(["explore", "CartPole-v1", *SMALL, "--fast", "--epochs", "1", "--out", "run"]) == 0
    task = ["finetune", "discrete_goal:right", "--env", "CartPole-v1", "--algo", algo, "--horizon", "20"]
    settings = [*("--threads", "1"), f"--{algo}.steps", "80"]
    assert main([*task, *settings, "--init", "run", "--iterations", "0", "--out", "none"]) == 0
    start, begun = Run.open("run").policy, Run.open("none").policy
    obs = np.random.default_rng(0).uniform(-1, 1, (300, 4))
    np.testing.assert_array_equal(begun.act(obs, np.random.default_rng(1)), start.act(obs, np.random.default_rng(1)))
    assert main([*task, *settings, "--init", "run", "--iterations", "2", "--out", "two"]) == 0
    assert isinstance(Run.open("two").policy, CategoricalPolicy)
    assert main([*task, *settings, "--iterations", "1", "--out", "scratch"]) == 0


# --- wrappers by name -----------------------------------------------------------------------------------------------


def test_a_wrapper_is_named_on_the_command_line_and_trusted_from_no_file(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    double = ["--wrapper", "discrete_toy:Double"]
    assert main(["explore", "discrete_toy:Toy", *SMALL, "--epochs", "1", *double, *double, "--out", "two"]) == 0
    run = Run.open("two")
    assert run.config.wrappers == ("discrete_toy:Double",) * 2
    assert run.domain.high.tolist() == [10.0, 10.0]
    assert main(["evaluate", "two", "--trajectories", "5"]) == 0
    monkeypatch.delitem(sys.modules, "discrete_toy")
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "stranger"))  # to whom the names are not known
    for place, settings in {"env": {"wrappers": []}, "wrapper": {"env": "Acrobot-v1"}}.items():
        config = json.loads(Path("two/config.json").read_text())
        Path("two/config.json").write_text(json.dumps({**config, **settings}))
        assert "runs code of the module 'discrete_toy'" in refused(["evaluate", "two"], capsys), place
        assert "discrete_toy" not in sys.modules
        Path("two/config.json").write_text(json.dumps(config))
    monkeypatch.setenv("MEPOL_MODULES", "discrete_toy")
    assert main(["evaluate", "two", "--trajectories", "5"]) == 0

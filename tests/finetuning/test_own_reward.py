"""An environment's own reward as a task: what it pays and where it ends are the environment's, to the number."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import mepol
from mepol.cli import main
from mepol.commands.finetune import default_name, free_place
from mepol.envs.make import limit_of
from mepol.errors import ConfigError, EnvironmentFault
from mepol.finetuning.config import FinetuneConfig
from mepol.finetuning.curves import Curve, Learner, learning_band
from mepol.finetuning.rows import FinetuneRow
from mepol.finetuning.tasks import Task, is_environment, make_task

TASK = {
    **{"trpo.steps": 40, "ppo.steps": 40, "sac.steps": 40, "sac.updates": 2, "sac.batch": 8, "sac.warmup": 40},
    **{"sac.buffer": 400, "hidden": (8,), "threads": 1, "horizon": 20, "iterations": 2, "progress": False},
}
SHORT = {
    "horizon": 20,
    "trajectories": 4,
    "evaluation_trajectories": 4,
    "hidden": (8,),
    "threads": 1,
    "progress": False,
}


class Corridor(gymnasium.Env[Any, Any]):
    """Pays `pay` for each step, and ends after seven."""

    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (2,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, pay: float = 1.5) -> None:
        self.pay, self.steps = pay, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.normal(size=2).astype(np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.np_random.normal(size=2).astype(np.float32), self.pay, self.steps == 7, False, {}


def test_it_pays_and_ends_as_the_environment_alone_does() -> None:
    env = make_task(Task("Pendulum-v1", None, 500), 3, kwargs={"g": 3.0})
    alone = [gymnasium.make("Pendulum-v1", g=3.0) for _ in range(3)]
    env.reset(seed=[4, 5, 6])
    for one, seed in zip(alone, (4, 5, 6), strict=True):
        one.reset(seed=seed)
    actions = np.random.default_rng(0).uniform(-1, 1, (200, 3, 1)).astype(np.float32)
    for t in range(200):
        _, paid, ended, cut, _ = env.step(actions[t])
        theirs = [one.step(2 * actions[t, i]) for i, one in enumerate(alone)]  # Pendulum's torque is within +-2
        np.testing.assert_allclose(paid, [step[1] for step in theirs], rtol=1e-6)
        assert (ended.any(), cut.tolist()) == (False, [step[3] for step in theirs])
    assert cut.all()  # the environment's own limit, long before the horizon


def test_an_episode_that_ends_by_itself_is_no_success_and_one_at_the_horizon_is_cut() -> None:
    env = make_task(Task(Corridor, None, 5), 2)
    env.reset(seed=[0, 1])
    ends = [env.step(np.zeros((2, 1), np.float32))[1:4] for _ in range(5)]
    assert [(r.tolist(), e.any(), c.all()) for r, e, c in ends] == [([1.5, 1.5], False, t == 4) for t in range(5)]
    run = mepol.finetune(Corridor, **{**TASK, "iterations": 1})
    row = run.directory.rows()[0]
    # Twenty steps of each lane: two whole episodes of seven, and one that is cut short by the iteration's end.
    assert (row.average_return, row.success_rate, row.steps_to_goal, row.episodes) == (10.5, None, None, 4)


@pytest.mark.parametrize("pay", [float("nan"), float("-inf")])
def test_a_reward_that_is_no_number_is_named(pay: Any) -> None:
    env = make_task(Task(lambda: Corridor(pay), None, 5), 2)
    env.reset(seed=[0, 1])
    with pytest.raises(EnvironmentFault, match=r"environment 0 paid a NaN or infinite reward at step 0"):
        env.step(np.zeros((2, 1), np.float32))


@pytest.mark.parametrize("algo", ["trpo", "ppo", "sac", "smm", "icm", "pseudocount"])
def test_every_learner_learns_it_and_a_resumed_run_equals_one_never_stopped(tmp_path: Path, algo: str) -> None:
    whole = mepol.finetune("Pendulum-v1", algo=algo, out=tmp_path / "whole", **TASK)
    mepol.finetune("Pendulum-v1", algo=algo, out=tmp_path / "part", **{**TASK, "iterations": 1})
    part = mepol.resume(tmp_path / "part", length=2, progress=False)
    assert part.metrics["average_return"].tolist() == whole.metrics["average_return"].tolist()
    assert (part.path / "policy.safetensors").read_bytes() == (whole.path / "policy.safetensors").read_bytes()
    assert np.isnan(whole.metrics["success_rate"]).all()
    assert (whole.metrics["average_return"] < 0).all()


def test_it_goes_on_from_an_exploration_in_the_same_world_and_is_measured_as_that_was(tmp_path: Path) -> None:
    settings = {**SHORT, "k": 6, "eps": 1e-3, "features": "0,2", "env_kwargs": {"g": 0.0}}
    run = mepol.explore("Pendulum-v1", epochs=0, out=tmp_path / "run", **settings)
    for what, init in (("Pendulum-v1", run), (None, str(run.path)), (None, run.path / "policy.safetensors")):
        found = mepol.finetune(what, init=init, out=tmp_path / f"task-{what}-{type(init).__name__}", **TASK)
        assert (found.config.task, found.config.env, found.config.env_kwargs) == (
            "Pendulum-v1",
            "Pendulum-v1",
            {"g": 0.0},
        )
        assert (found.protocol.k, found.protocol.eps, found.domain.features) == (6, 1e-3, (0, 2))
        assert found.evaluate(trajectories=4).evaluation.k == 6
    # One task of the paper's without an exploration is measured as its preset says.
    paper = mepol.finetune("grid-goal1", out=tmp_path / "paper", **TASK)
    assert (paper.protocol.k, paper.protocol.eps) == (50, 0.0)  # the paper's, of GridWorld


def test_objects_are_taken_and_handed_in_again(tmp_path: Path) -> None:
    run = mepol.finetune(env=lambda: Corridor(2.0), out=tmp_path / "run", **TASK)
    assert run.metrics["average_return"].tolist() == [14.0] * 3
    with pytest.raises(ConfigError, match="hand it in again"):
        mepol.resume(run.path, length=3, progress=False)
    longer = mepol.resume(run.path, length=3, env=lambda: Corridor(2.0), progress=False)
    assert longer.metrics["average_return"].tolist() == [14.0] * 4


def test_what_is_an_environment_and_how_long_its_episodes_are() -> None:
    assert [is_environment(one) for one in ("Pendulum-v1", Corridor, lambda: Corridor())] == [True] * 3
    goals = ("grid-goal1", "Nowhere-v0", lambda states: states[:, 0] > 0, "mepol.finetuning.goals:ant_jump")
    assert [is_environment(one) for one in goals] == [False] * 4
    assert (limit_of("Pendulum-v1"), limit_of(Corridor)) == (200, None)
    assert limit_of(lambda: gymnasium.wrappers.TimeLimit(Corridor(), 33)) == 33


def test_the_command_line_takes_it_and_names_runs_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    few = ["--trpo.steps", "200", "--hidden", "8", "--threads", "1", "--iterations", "1"]
    for _ in range(2):
        assert main(["finetune", "Pendulum-v1", *few, "--env-arg", "g=1.0"]) == 0
    text = capsys.readouterr().out
    assert "1 iterations of 1 x 200" in text
    assert "success" not in text
    names = sorted(path.name for path in Path("runs").iterdir())
    assert names == ["Pendulum-v1-trpo-scratch-seed-0", "Pendulum-v1-trpo-scratch-seed-0-2"]
    assert mepol.open("runs/Pendulum-v1-trpo-scratch-seed-0").config.env_kwargs == {"g": 1.0}
    assert main(["finetune", "Pendulum-v1", *few, "--seed", "1", "--env-arg", "g=1.0"]) == 0
    seeds = [f"runs/Pendulum-v1-trpo-scratch-seed-{seed}" for seed in (0, 1)]
    assert main(["compare", *seeds, "--out", "both"]) == 0
    with Path("both/curves.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["success_rate"] for row in rows] == [""] * 4
    assert sorted(path.name for path in Path("both").glob("*.png")) == ["Pendulum-v1-average-return.png"]
    for words, sentence in (
        (["gridworld"], "pays no reward of its own"),
        (["Pendulm-v1"], "no task called"),
        (["mepol.finetuning.goals:ant_jump"], "needs an environment"),
        (["mepol.finetuning.goals:ant_jump", "--env", "Ant-v77"], "no exploration preset or environment"),
    ):
        capsys.readouterr()
        assert main(["finetune", *words, *few, "--horizon", "200"]) == 2
        assert sentence in capsys.readouterr().err


def test_a_directory_is_named_by_what_it_starts_from() -> None:
    starts = {
        "runs/ant-seed-3": "from-ant-seed-3",
        "runs/ant-seed-3/policy.safetensors": "from-ant-seed-3",
        "runs/ant-seed-3/best.safetensors": "from-ant-seed-3-best",
        "mine/ant-0.5.safetensors": "from-ant-0.5.safetensors",
        "none": "scratch",
    }
    for init, name in starts.items():
        assert default_name(FinetuneConfig("ant-jump", init=init)) == f"ant-jump-trpo-{name}-seed-0"
    assert default_name(FinetuneConfig("ant-jump", init="a", which="best")) == "ant-jump-trpo-from-a-best-seed-0"


def test_a_place_that_is_taken_is_numbered(tmp_path: Path) -> None:
    for name in ("run", "run-2"):
        assert free_place(tmp_path / "run") == tmp_path / name
        (tmp_path / name).mkdir()
        assert free_place(tmp_path / "run") == tmp_path / name  # empty: nothing is in the way
        (tmp_path / name / "config.json").write_text("{}")


def test_returns_that_have_no_range_are_neither_solved_nor_clipped() -> None:
    def curve(seed: int, value: float, success: float | None) -> Curve:
        return Curve(seed, "scratch", (FinetuneRow(0, 0, value, success),))

    own = Learner("Pendulum-v1", "trpo", (curve(0, -100.0, None), curve(1, 300.0, None)))
    band = learning_band(own, "average_return")
    assert band is not None
    assert band.low[0] < -1000 < 1000 < band.high[0]  # Student's t with one degree of freedom: 12.7 deviations
    assert [one.solved_at for one in own.curves] == [None, None]
    goal = Learner("ant-jump", "trpo", (curve(0, 0.1, 0.1), curve(1, 0.95, 0.9)))
    band = learning_band(goal, "average_return")
    assert band is not None
    assert (band.low[0], band.high[0]) == (0.0, 1.0)
    assert [one.solved_at for one in goal.curves] == [None, 0]

"""Fine-tuning looks at what its environment and its goal give: every break is one sentence, and ends are hidden."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

from mepol.cli import main
from mepol.envs.make import make_env
from mepol.errors import CollapseError, EnvironmentFault
from mepol.finetuning.reach import ReachVectorEnv
from mepol.finetuning.tasks import Task, make_task

RELIABILITY = Path(__file__).parents[1] / "reliability"


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The walks that go wrong on request, registered."""
    monkeypatch.syspath_prepend(str(RELIABILITY))
    import toys

    toys.register()
    yield toys
    for name in (toys.SINGLE, toys.VECTOR):
        del gymnasium.registry[name]


def far(states: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(states[:, 0]) > 40)


def walk(env_id: str, steps: int = 8, goal: Any = far, **options: Any) -> list[tuple]:
    env = make_task(Task(env_id, goal, horizon=20), 4, **options)
    env.reset(seed=[1, 2, 3, 4])
    return [env.step(np.ones((4, 2), dtype=np.float32)) for _ in range(steps)]


@pytest.mark.parametrize(
    ("vector", "fault", "message"),
    [
        (False, "nan:1:5", "environment 0 returned a NaN or infinite observation at step 4; repair or wrap it"),
        (False, "inf:1:5", "environment 0 returned a NaN or infinite observation at step 4; repair or wrap it"),
        (False, "inf:1:0", "environment 0 returned a NaN or infinite observation at reset; repair or wrap it"),
        (False, "raise:1:5", "the environment's step 4 raised ZeroDivisionError: the wheel came off"),
        (False, "raise:1:0", "the environment's reset raised ZeroDivisionError: the wheel came off"),
        (False, "shape:1:5", "the step of Walk returned an observation of shape (3,)"),
        (False, "construction:0:0", "the environment's construction as 'toy/Walk-v0' raised OSError: no licence"),
        (True, "nan:1:3", "environment 1 returned a NaN or infinite observation at step 2"),
        (True, "inf:1:3", "environment 2 returned a NaN or infinite observation at step 2"),
        (True, "shape:1:3", "the environment's step 2 returned observations (4, 1) float64, not (4, 2) real numbers"),
        (True, "object:1:3", "the environment's step 2 returned observations () object, not (4, 2) real numbers"),
        (True, "ends:1:3", "the environment's step 2 returned ends (5,), not (4,) truth values"),
    ],
)
def test_a_fault_of_the_environment_is_named_in_a_task(
    toys: ModuleType, monkeypatch: pytest.MonkeyPatch, vector: bool, fault: str, message: str
) -> None:
    monkeypatch.setenv("TOY_FAULT", fault)
    with pytest.raises(EnvironmentFault) as raised:
        walk(toys.VECTOR if vector else toys.SINGLE)
    assert str(raised.value).startswith(message)


def test_a_call_that_hangs_is_ended(toys: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_FAULT", "hang:1:2")
    with pytest.raises(EnvironmentFault, match=r"step 1 took longer than the time limit of 0.2 s"):
        walk(toys.SINGLE, time_limit=0.2)


def test_infinity_does_not_meet_a_goal_and_the_command_says_why(
    toys: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "away.py").write_text("def far(states):\n    return states[:, 1] > 40\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOY_FAULT", "inf:4:5")  # resets: the learner's, iteration 0, its end, iteration 1
    argv = ["finetune", "away:far", "--env", toys.SINGLE, "--iterations", "3", "--horizon", "20", "--hidden", "8"]
    assert main([*argv, "--trpo.steps", "80", "--threads", "1", "--out", str(tmp_path / "run")]) == 1
    said = capsys.readouterr()
    assert "environment 0 returned a NaN or infinite observation at step 4; repair or wrap it" in said.err
    assert "Traceback" not in said.err
    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    assert len(rows) == 2  # the header and the whole iteration before
    assert float(rows[1].split(",")[rows[0].split(",").index("average_return")]) == 0.0


class Short(gymnasium.Env):
    """Counts its steps in coordinate 0; ends by itself after three, as a fallen robot does."""

    observation_space = Box(-100.0, 100.0, (2,), np.float64)
    action_space = Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.state = np.array([0.0, self.np_random.uniform()])
        return self.state.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.state[0] += 1
        return self.state.copy(), 7.0, bool(self.state[0] >= 3), False, {}


@pytest.fixture
def short() -> Iterator[str]:
    gymnasium.register("mepol-tests/Short-v0", entry_point=Short, max_episode_steps=5)
    yield "mepol-tests/Short-v0"
    del gymnasium.registry["mepol-tests/Short-v0"]


def test_an_episode_ends_at_the_goal_or_the_horizon_alone(short: str) -> None:
    for goal, horizon, terminated, truncated in ((8, 20, True, False), (30, 9, False, True)):
        env = make_task(Task(short, lambda states, at=goal: states[:, 0] >= at, horizon=horizon), 2)
        env.reset(seed=[0, 1])
        ends = [env.step(np.zeros((2, 2), np.float32)) for _ in range(min(goal, horizon))]
        assert not any(step[2].any() or step[3].any() for step in ends[:-1])
        assert ends[-1][0][:, 0].tolist() == [min(goal, horizon)] * 2  # its own end after 3, its time limit of 5
        assert (ends[-1][2].all(), ends[-1][3].all()) == (terminated, truncated)
        assert ends[-1][1].tolist() == [float(terminated)] * 2  # never the environment's own 7


def test_a_restart_of_some_leaves_the_others_their_age(short: str) -> None:
    env = make_task(Task(short, lambda states: states[:, 0] < 0, horizon=6), 2)
    env.reset(seed=[0, 1])
    still = np.zeros((2, 2), np.float32)
    for _ in range(4):
        env.step(still)
    options = {"reset_mask": np.array([True, False])}
    env.reset(options=options)
    assert options["reset_mask"].tolist() == [True, False]  # the caller's own
    env.step(still)
    assert env.step(still)[3].tolist() == [False, True]


def overwrites(states: np.ndarray) -> np.ndarray:
    states[:] = 0
    return states[:, 0] > 0


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        (lambda states: states[:, 0], r"returned \(4,\) float64, not \(4,\) truth values"),
        (lambda states: True, r"returned \(\) bool, not \(4,\) truth values"),
        (lambda states: states[:, 7] > 0, "raised IndexError: index 7 is out of bounds"),
        (overwrites, "overwrites' raised ValueError: assignment destination is read-only"),
    ],
)
def test_a_goal_that_is_broken_is_named(toys: ModuleType, goal: Any, message: str) -> None:
    with pytest.raises(EnvironmentFault, match=rf"^the goal '.*{message}"):
        walk(toys.VECTOR, goal=goal)


def test_a_policy_without_numbers_is_not_blamed_on_the_environment() -> None:
    env = ReachVectorEnv(make_env("mepol/GridWorld-v0", 2), far, 5)
    env.reset(seed=0)
    with pytest.raises(CollapseError, match="gave environment 1 a NaN or infinite action at step 0"):
        env.step(np.array([[0.0, 0.0], [np.nan, 0.0]]))

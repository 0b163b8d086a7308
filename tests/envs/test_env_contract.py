"""Environments with a fault: one sentence that says whose it is and where, and nothing of what was raised is lost."""

from __future__ import annotations

import json
import traceback
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

import mepol
from mepol.cli import main
from mepol.envs.contract import check_spaces, guard, own_line
from mepol.envs.make import make_env
from mepol.errors import EnvironmentFault

SMALL = {"horizon": 20, "trajectories": 3, "epochs": 1, "evaluation_trajectories": 3, "threads": 1, "k": 2}
SMALL |= {"hidden": (8,), "zero_mean_steps": 0}


class Walk(gymnasium.Env):
    """A random walk in the plane: nothing is wrong with it."""

    observation_space = Box(-1.0, 1.0, (2,), np.float64)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.zeros(2)
        return self.state.copy(), {}

    def step(self, action):
        self.state = self.state + 0.1 * self.np_random.standard_normal(2)
        return self.state.copy(), 0.0, False, False, {}


class OldReset(Walk):
    def reset(self, seed=None, options=None):
        return super().reset(seed=seed)[0]


class NoSeed(Walk):
    def reset(self):
        return super().reset()


class OldStep(Walk):
    def step(self, action):
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, info


class Nothing(Walk):
    def step(self, action):
        return None


class WrongStart(Walk):
    def reset(self, seed=None, options=None):
        return np.zeros(3), {}


class WrongStep(Walk):
    def step(self, action):
        return np.zeros((1, 2)), *super().step(action)[1:]


class NotANumber(Walk):
    def step(self, action):
        obs, *rest = super().step(action)
        return obs * np.nan, *rest


class Buggy(Walk):
    def step(self, action):
        return self.helper({})

    def helper(self, table):
        return table["speed"]  # the line that is named


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (OldReset, r"the reset of OldReset must take seed= and options=, and return \(observation, info\)"),
        (NoSeed, r"reset must take seed= .*unexpected keyword argument 'seed'"),
        (OldStep, r"the step of OldStep must return \(observation, reward, terminated, truncated, info\)"),
        (Nothing, r"the step of Nothing must return \(observation"),
        (WrongStart, r"the reset of WrongStart returned an observation of shape \(3,\).* has \(2,\)"),
        (WrongStep, r"the step of WrongStep returned an observation of shape \(1, 2\).* has \(2,\)"),
        (NotANumber, r"NaN or infinite observation at step 0"),
    ],
)
def test_what_is_given_back_must_be_what_was_promised(kind, words, tmp_path):
    with pytest.raises(EnvironmentFault, match=words):
        mepol.explore(kind, out=tmp_path / "run", progress=False, **SMALL)


def test_an_older_environment_below_a_time_limit_is_told_too():
    """Gymnasium's own wrapper takes the five values apart before anything of ours sees them."""
    gymnasium.register("Old-v0", OldStep, max_episode_steps=5)
    try:
        env = make_env("Old-v0", 2, ignore_termination=False)
        with pytest.raises(EnvironmentFault, match=r"step 0 must return \(observation, reward, .*got 4"):
            mepol.collect(mepol.GaussianPolicy(2, 1, (4,)), env, 3, seed=0)
    finally:
        del gymnasium.registry["Old-v0"]


def test_a_fault_of_the_user_s_own_code_is_named_with_file_and_line(tmp_path):
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "the line that is" in text)
    with pytest.raises(EnvironmentFault, match=rf"KeyError: 'speed' \({__file__}, line {line}, in helper\)") as caught:
        mepol.explore(Buggy, out=tmp_path / "run", progress=False, **SMALL)
    assert isinstance(caught.value.__cause__, KeyError)
    assert 'table["speed"]' in "".join(traceback.format_exception(caught.value))


def test_code_of_libraries_is_nobody_s_own():
    for raising in (lambda: np.zeros(2).reshape(3), lambda: gymnasium.make("NoSuch-v0")):
        try:
            raising()
        except Exception as fault:
            here = own_line(fault)
        assert here is not None  # this very file
        assert __file__ in here
    with pytest.raises(ValueError, match="Expecting") as caught:
        json.loads("{")
    assert own_line(caught.value.with_traceback(caught.tb.tb_next)) is None  # what json itself did


def test_the_command_line_shows_the_traceback_on_request(tmp_path, capsys):
    source = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\nfrom test_env_contract import Buggy\n"
    (tmp_path / "mine.py").write_text(source)
    typed = [word for name, v in SMALL.items() for word in (f"--{name.replace('_', '-')}", str(v).strip("(,)"))]
    command = ["explore", f"{tmp_path / 'mine.py'}:Buggy", *typed, "--out", str(tmp_path / "run")]
    assert main(command) == 1
    err = capsys.readouterr().err
    assert err.startswith("mepol: the environment's step 0 raised KeyError: 'speed' (")
    assert err.count("\n") == 1
    assert err.endswith("; --verbose shows the traceback\n")
    assert main([*command[:-1], str(tmp_path / "other"), "--verbose"]) == 1
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith("mepol: the environment's step 0 raised KeyError: 'speed' (")
    assert any("return table[" in text for text in rest)


@pytest.mark.parametrize(("fast", "dtype"), [(False, np.float64), (True, np.float32)])
def test_half_bounded_spaces_raise_no_warning(fast, dtype, tmp_path):
    class Half(Walk):
        observation_space = Box(np.array([0.0, -np.inf], dtype), np.array([np.inf, 1.0], dtype), dtype=dtype)

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        run = mepol.explore(Half, fast=fast, out=tmp_path / "run", progress=False, scale_inputs=True, **SMALL)
    assert np.isfinite(run.metrics["index"]).all()
    assert np.isfinite(run.policy.scale.numpy()).all()


def test_a_single_environment_is_not_a_batch():
    for env in (gymnasium.make("mepol/GridWorld-v0"), "mepol/GridWorld-v0"):
        with pytest.raises(EnvironmentFault, match=r"a batch of environments is needed, not a .*make_vec"):
            mepol.collect(mepol.GaussianPolicy(2, 2, (4,)), env, 3, seed=0)


def test_an_exception_without_words_and_a_space_without_coordinates():
    class Silent(Walk):
        def step(self, action):
            raise NotImplementedError

    class Empty(Walk):
        observation_space = Box(-1.0, 1.0, (0,), np.float64)

    env = make_env(Silent, 1)
    env.reset(seed=[0])
    with pytest.raises(EnvironmentFault, match=r"step raised NotImplementedError \("), guard("step"):
        env.step(np.zeros((1, 1)))
    with pytest.raises(EnvironmentFault, match=r"the observation space .* has no coordinate: give it one"):
        check_spaces(make_env(Empty, 1))

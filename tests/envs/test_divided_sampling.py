"""A batch whose parts are sampled by different threads is the batch that one thread samples."""

from __future__ import annotations

import os
import signal
import threading

import gymnasium
import numpy as np
import pytest
import torch

from mepol.algorithm.batch import Batch
from mepol.algorithm.policy import GaussianPolicy
from mepol.errors import CollapseError, EnvironmentFault
from mepol.sampling.collect import collect

mujoco = pytest.importorskip("mujoco")

from mepol.envs.ant import AntVectorEnv  # noqa: E402
from mepol.envs.hand_reach import HandReachVectorEnv  # noqa: E402

M, T, ODD = 23, 12, 15  # two blocks of rows, 0-10 and 11-22; the odd one is in the second


def policy_for(env, kind=GaussianPolicy):
    policy = kind(len(env.feature_names), env.single_action_space.shape[0], (32, 16))
    policy.initialise(np.random.default_rng(0), log_std=-0.5)
    return policy


def sample(env, policy=None, time_limit=0.0):
    try:
        return collect(policy or policy_for(env), env, T, seed=np.random.SeedSequence(4), time_limit=time_limit)
    finally:
        env.close()


def assert_same(a: Batch, b: Batch, rows=slice(None)):
    for name in ("states", "actions", "lengths"):
        np.testing.assert_array_equal(getattr(a, name)[rows], getattr(b, name)[rows])


class Watched(AntVectorEnv):
    """Ants whose states are read by a function of the ant's number, after `read` has done its work."""

    def after(self, i, state):
        pass

    def read(self, i, state):
        super().read(i, state)
        if self.data[i].time > 0:
            self.after(i, state)


class Threads(Watched):
    """Remembers which threads stepped."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.seen = {}

    def after(self, i, state):
        self.seen.setdefault(i, set()).add(threading.current_thread().name)


@pytest.mark.parametrize("domain", [AntVectorEnv, HandReachVectorEnv])
def test_the_number_of_threads_changes_no_bit(domain):
    alone = sample(domain(M, threads=1))
    assert alone.lengths.tolist() == [T] * M
    assert len(np.unique(alone.actions[:, 0], axis=0)) == M  # noise of its own for each
    assert_same(alone, sample(domain(M, threads=2)))  # two parts
    assert_same(alone, sample(domain(M, threads=3)))  # more threads than blocks: stepped as a whole
    assert_same(alone, sample(domain(M, threads=2), time_limit=60.0))  # as a whole again, under an alarm


def test_actions_are_those_that_the_policy_draws_from_the_seed():
    env = AntVectorEnv(M, threads=2)
    policy = policy_for(env)
    batch = sample(env, policy)
    rng = np.random.default_rng(np.random.SeedSequence(4).spawn(2)[1])
    for t in range(T):
        expected = policy.act(batch.states[:, t], rng)
        np.testing.assert_allclose(batch.actions[:, t], expected, rtol=1e-5, atol=1e-6)


def test_parts_are_sampled_by_several_threads_and_torch_keeps_its_number_of_threads():
    env = Threads(M, threads=2)
    torch.set_num_threads(2)
    try:
        batch = sample(env)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert_same(batch, sample(AntVectorEnv(M, threads=1)))
    names = set().union(*env.seen.values())
    assert any(name.startswith("mepol-turns") for name in names)


class Explodes(Watched):
    """The odd ant is given an absurd velocity after its fourth step."""

    def after(self, i, state):
        if i == ODD and round(self.data[i].time / 0.05) == 4:
            self.data[i].qvel[:] = 1e12


def test_a_divergence_in_a_part_cuts_that_trajectory_alone(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    handler = mujoco.get_mju_user_warning()  # dm_control, where something has imported it, has one of its own
    whole = sample(AntVectorEnv(M, threads=1))
    for threads in (1, 2, 3):
        with pytest.warns(UserWarning, match=rf"environment {ODD} diverged at step 5 \(mjWARN_BADQVEL\)") as caught:
            cut = sample(Explodes(M, threads=threads))
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert cut.lengths.tolist() == [4 if i == ODD else T for i in range(M)]
        assert_same(cut, whole, np.arange(M) != ODD)
        np.testing.assert_array_equal(cut.states[ODD, :4], whole.states[ODD, :4])
    assert mujoco.get_mju_user_warning() is handler
    assert list(tmp_path.iterdir()) == []  # MuJoCo would leave MUJOCO_LOG.TXT
    assert capfd.readouterr() == ("", "")


class Fails(Watched):
    def after(self, i, state):
        if i == ODD and round(self.data[i].time / 0.05) == 3:
            raise ValueError("lost")


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_an_exception_in_a_part_is_named(threads):
    before, handler = threading.active_count(), mujoco.get_mju_user_warning()
    with pytest.raises(EnvironmentFault, match=r"the environment's step 2 raised ValueError: lost"):
        sample(Fails(M, threads=threads))
    assert threading.active_count() == before
    assert mujoco.get_mju_user_warning() is handler


class Lost(GaussianPolicy):
    """Gives the odd row noise that is no number at step 2."""

    drawn = 0

    def noise(self, rows, rng, before=None):
        noise = super().noise(rows, rng, before)
        noise[ODD] = np.nan if self.drawn == 2 else noise[ODD]
        self.drawn += 1
        return noise


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_an_action_that_is_no_number_is_traced_to_its_environment(threads):
    env = AntVectorEnv(M, threads=threads)
    with pytest.raises(CollapseError, match=f"gave environment {ODD} a NaN or infinite action at step 2"):
        sample(env, policy_for(env, Lost))


class Interrupted(Watched):
    """Ctrl-C arrives while the odd ant takes its third step."""

    def after(self, i, state):
        if i == ODD and round(self.data[i].time / 0.05) == 3:
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_stops_all_parts_at_once():
    before = threading.active_count()
    env = Interrupted(M, threads=2)
    policy = policy_for(env)
    with pytest.raises(KeyboardInterrupt):
        collect(policy, env, 2000, seed=np.random.SeedSequence(4))
    steps = [round(data.time / 0.05) for data in env.data]
    assert max(steps) < 100, "a part went on for long"
    env.close()
    assert threading.active_count() == before


def test_what_steps_or_acts_in_its_own_way_is_not_divided():
    class Still(GaussianPolicy):
        def act(self, obs, rng, deterministic=False):
            assert len(obs) == M
            return np.zeros((len(obs), 8), dtype=np.float32)

    class Pushed(AntVectorEnv):
        calls = 0

        def advance(self, actions):
            assert len(actions) == M
            self.calls += 1
            super().advance(actions)

    env = Pushed(M, threads=2)
    assert not sample(env, policy_for(env, Still)).actions.any()
    assert env.calls == T
    wrapped = gymnasium.wrappers.vector.TransformObservation(AntVectorEnv(M, threads=2), lambda obs: obs + 100.0)
    batch = collect(policy_for(wrapped.unwrapped), wrapped, T, seed=np.random.SeedSequence(4))
    assert batch.states[:, :, 0].min() > 50.0  # every step went through the wrapper
    wrapped.close()


def test_parts_of_a_closed_environment_say_so():
    env = AntVectorEnv(M)
    env.close()
    with pytest.raises(EnvironmentFault, match="closed"):
        env.step_rows(slice(0, 5), np.zeros((5, 8)))

"""What is true of any batch: threads and neighbours do not matter, a diverged simulation harms nobody else."""

from __future__ import annotations

import numpy as np
import pytest

from mepol.algorithm.policy import GaussianPolicy
from mepol.errors import EnvironmentFault
from mepol.sampling.collect import collect

mujoco = pytest.importorskip("mujoco")

from mepol.envs.ant import AntVectorEnv, ant  # noqa: E402
from mepol.envs.ant_maze import AntMazeVectorEnv  # noqa: E402
from mepol.envs.hand_reach import HandReachVectorEnv  # noqa: E402
from mepol.envs.humanoid import HumanoidVectorEnv  # noqa: E402


def walk(env, seeds, actions):
    """(T+1, M, S) states under (T, M, A) actions."""
    states = [env.reset(seed=seeds)[0], *(env.step(action)[0] for action in actions)]
    env.close()
    return np.array(states)


@pytest.mark.parametrize("domain", [AntVectorEnv, HumanoidVectorEnv])
def test_threads_and_split_do_not_change_a_bit(domain):
    m, seeds = 7, [11, 12, 13, 14, 15, 16, 17]
    size = domain(1).single_action_space.shape[0]
    actions = np.random.default_rng(0).standard_normal((60, m, size)) * 0.4
    alone = walk(domain(m, threads=1), seeds, actions)
    for threads in (2, 5, 64):
        np.testing.assert_array_equal(walk(domain(m, threads=threads), seeds, actions), alone)
    halves = [walk(domain(3), seeds[:3], actions[:, :3]), walk(domain(4), seeds[3:], actions[:, 3:])]
    np.testing.assert_array_equal(np.concatenate(halves, axis=1), alone)
    np.testing.assert_array_equal(walk(domain(1), seeds[4:5], actions[:, 4:5]), alone[:, 4:5])
    assert np.abs(alone[:, 0] - alone[:, 1]).max() > 1e-3  # different seeds do differ


@pytest.mark.parametrize("domain", [AntVectorEnv, AntMazeVectorEnv, HumanoidVectorEnv, HandReachVectorEnv])
def test_not_looking_for_islands_of_constraints_changes_no_bit(domain):
    bare, looking = domain(2), domain(2)
    flag = int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
    assert bare.model.opt.disableflags & flag
    looking.model.opt.disableflags &= ~flag
    actions = np.random.default_rng(0).uniform(-0.4, 0.4, (150, 2, bare.single_action_space.shape[0]))
    np.testing.assert_array_equal(walk(bare, [1, 2], actions), walk(looking, [1, 2], actions))
    assert max(data.nefc for data in looking.data) > 0  # there were constraints to solve


def test_earlier_observations_are_left_alone():
    env = AntVectorEnv(2)
    first, _ = env.reset(seed=0)
    before = first.copy()
    second = env.step(np.ones((2, 8)))[0]
    np.testing.assert_array_equal(first, before)
    assert np.abs(second - first).max() > 0
    env.close()


def test_a_partial_reset_leaves_the_others_where_they_are():
    env = AntVectorEnv(3)
    env.reset(seed=0)
    states = env.step(np.ones((3, 8)))[0]
    after, _ = env.reset(seed=[7, 7, 7], options={"reset_mask": np.array([False, True, False])})
    np.testing.assert_array_equal(after[[0, 2]], states[[0, 2]])
    assert np.abs(after[1] - states[1]).max() > 1e-3
    env.close()


class ExplodingAnt(AntVectorEnv):
    """Ant 1 is given an absurd velocity before its sixth step."""

    steps = 0

    def advance(self, actions):
        if self.steps == 5:
            self.data[1].qvel[:] = 1e12
        self.steps += 1
        super().advance(actions)


def test_a_diverged_simulation_is_named_frozen_and_brought_back_by_reset(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    env = ExplodingAnt(3, threads=2)
    env.reset(seed=0)
    for _ in range(5):
        good, _, _, truncated, info = env.step(np.zeros((3, 8)))
        assert not truncated.any()
        assert info == {}
    for _ in range(3):
        states, _, terminated, truncated, info = env.step(np.zeros((3, 8)))
        assert truncated.tolist() == info["diverged"].tolist() == [False, True, False]
        assert info["warning"][1] == "mjWARN_BADQVEL"
        assert not terminated.any()
        np.testing.assert_array_equal(states[1], good[1])
        assert np.abs(states[0] - good[0]).max() > 0
    env.reset(seed=1)
    assert not env.step(np.zeros((3, 8)))[3].any()
    env.close()
    assert list(tmp_path.iterdir()) == []  # MuJoCo would leave MUJOCO_LOG.TXT
    assert capfd.readouterr() == ("", "")


def test_a_nan_state_without_a_warning_is_caught_too():
    class Poisoned(AntVectorEnv):
        def read(self, i, state):
            super().read(i, state)
            state[3] = np.nan if i == 0 and self.data[0].time > 0 else state[3]

    env = Poisoned(2)
    start, _ = env.reset(seed=0)
    states, _, _, truncated, info = env.step(np.zeros((2, 8)))
    assert truncated.tolist() == [True, False]
    assert "NaN" in info["warning"][0]
    np.testing.assert_array_equal(states[0], start[0])
    env.close()


def test_a_nan_action_is_a_divergence_of_its_own_environment():
    env = AntVectorEnv(2)
    env.reset(seed=0)
    actions = np.zeros((2, 8))
    actions[0, 3] = np.nan
    _, _, _, truncated, info = env.step(actions)
    assert truncated.tolist() == [True, False]
    assert info["warning"][0] == "mjWARN_BADCTRL"
    env.close()


def test_collect_cuts_the_diverged_trajectory_and_keeps_the_rest():
    policy = GaussianPolicy(29, 8, (16,))
    policy.initialise(np.random.default_rng(0), log_std=-0.5)
    whole = collect(policy, AntVectorEnv(3), 12, seed=np.random.SeedSequence(4))
    with pytest.warns(UserWarning, match=r"environment 1 diverged at step 6 \(mjWARN_BADQVEL\)"):
        cut = collect(policy, ExplodingAnt(3), 12, seed=np.random.SeedSequence(4))
    assert whole.lengths.tolist() == [12, 12, 12]
    assert cut.lengths.tolist() == [12, 5, 12]
    np.testing.assert_array_equal(cut.states[[0, 2]], whole.states[[0, 2]])
    np.testing.assert_array_equal(cut.states[1, :6], whole.states[1, :6])
    assert len(cut.particles((0, 1))) == 29


def test_collect_stops_early_when_all_have_diverged():
    class AllExplode(AntVectorEnv):
        calls = 0

        def advance(self, actions):
            AllExplode.calls += 1
            for data in self.data:
                data.qvel[:] = 1e12
            super().advance(actions)

    policy = GaussianPolicy(29, 8, (16,))
    policy.initialise(np.random.default_rng(0), log_std=-0.5)
    with pytest.warns(UserWarning, match="diverged at step 1"):
        batch = collect(policy, AllExplode(2), 50, seed=np.random.SeedSequence(4))
    assert AllExplode.calls == 1
    assert batch.lengths.tolist() == [1, 1]
    np.testing.assert_array_equal(batch.states[:, 1], batch.states[:, 0])


def test_a_diverged_single_environment_is_truncated():
    env = ant()
    env.reset(seed=0)
    env._batch.data[0].qvel[:] = 1e12
    _, _, terminated, truncated, info = env.step(np.zeros(8))
    assert (terminated, truncated) == (False, True)
    assert info["warning"] == "mjWARN_BADQVEL"
    env.close()


def test_closing_ends_the_threads_and_a_closed_environment_says_so():
    import threading

    before = threading.active_count()
    env = AntVectorEnv(4, threads=3)
    env.reset(seed=0)
    env.step(np.zeros((4, 8)))
    assert threading.active_count() > before
    env.close()
    assert threading.active_count() == before
    with pytest.raises(EnvironmentFault, match="closed"):
        env.step(np.zeros((4, 8)))


@pytest.mark.parametrize("arguments", [{"num_envs": 0}, {"threads": 0}, {"render_mode": "human"}])
def test_impossible_arguments_are_refused(arguments):
    with pytest.raises(EnvironmentFault):
        AntVectorEnv(**arguments)

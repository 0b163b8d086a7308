"""The VecEnv that Stable-Baselines3 sees is the environment itself, stepped."""

from __future__ import annotations

import numpy as np

from mepol.envs.gridworld import GridWorldVectorEnv
from mepol.finetuning.goals import near
from mepol.finetuning.reach import ReachVectorEnv
from mepol.sb3.adapter import BatchedVecEnv


def make(horizon: int = 7) -> ReachVectorEnv:
    return ReachVectorEnv(GridWorldVectorEnv(3), near(-5.0, -4.0, 0.6), horizon)


def test_stepping_through_the_adapter_equals_stepping_the_environment():
    adapted, direct = BatchedVecEnv(make()), make()
    seeds = [3, 1, 4]
    states, _ = direct.reset(seed=seeds)
    assert np.array_equal(adapted.restart(seeds), states.astype(np.float32))
    rng = np.random.default_rng(0)
    episodes = 0
    for _ in range(40):
        actions = rng.uniform(-0.2, 0.2, (3, 2)).astype(np.float32)
        states, rewards, terminated, truncated, _ = direct.step(actions)
        seen, got, done, infos = adapted.step(actions)
        assert np.array_equal(got, rewards.astype(np.float32))
        assert np.array_equal(done, terminated | truncated)
        for i in np.flatnonzero(done):
            assert np.array_equal(infos[i]["terminal_observation"], states[i].astype(np.float32))
            assert infos[i]["TimeLimit.truncated"] == truncated[i]
        assert all(not infos[i] for i in np.flatnonzero(~done))
        if done.any():
            episodes += int(done.sum())
            states, _ = direct.reset(options={"reset_mask": done})
        assert np.array_equal(seen, states.astype(np.float32))
    finished = adapted.take_episodes()
    assert len(finished) == episodes > 3
    assert adapted.take_episodes() == []
    assert {e.success for e in finished} == {True, False}
    assert all(e.reward == float(e.success) and e.length <= 7 for e in finished)
    assert all(e.success or e.length == 7 for e in finished)
    assert sum(e.first for e in finished) == 3


def test_seeds_repeat_and_restart_forgets_what_was_under_way():
    env = BatchedVecEnv(make())
    env.seed(5)
    first = env.reset()
    env.step(np.zeros((3, 2), dtype=np.float32))
    env.seed(5)
    assert np.array_equal(first, env.reset())
    env.restart([1, 2, 3])
    for _ in range(7):
        env.step(np.zeros((3, 2), dtype=np.float32))
    assert all(e.length <= 7 for e in env.take_episodes())
    assert env.observation_space.dtype == np.float32
    assert env.get_attr("horizon") == [7, 7, 7]
    assert env.env_is_wrapped(object) == [False] * 3
    env.close()

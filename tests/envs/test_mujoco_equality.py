"""The batched domains walk step by step with Gymnasium's own, contacts and warm starts included."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from mepol.envs.batched import BatchedEnv

mujoco = pytest.importorskip("mujoco")
gymnasium_robotics = pytest.importorskip("gymnasium_robotics")

from mepol.envs.ant import AntVectorEnv  # noqa: E402
from mepol.envs.hand_reach import HandReachVectorEnv  # noqa: E402
from mepol.envs.humanoid import HumanoidVectorEnv  # noqa: E402

STEPS = 200
gymnasium.register_envs(gymnasium_robotics)


def reference_state(env, observation):
    return observation["observation"] if isinstance(observation, dict) else env.state_vector()


def worst_difference(batch: BatchedEnv, reference_id: str, *, spoil=lambda env: None) -> tuple[float, int]:
    """Largest difference of any coordinate over 200 steps of 3 environments, and the contacts met on the way."""
    m, contacts, worst = batch.num_envs, 0, 0.0
    references = [gymnasium.make(reference_id).unwrapped for _ in range(m)]
    rng = np.random.default_rng(5)
    box = batch.single_action_space
    actions = rng.uniform(box.low, box.high, (STEPS, m, *box.shape)).astype(np.float32)
    states, _ = batch.reset(seed=list(range(m)))
    for i, reference in enumerate(references):
        observation, _ = reference.reset(seed=i)
        worst = max(worst, np.abs(states[i] - reference_state(reference, observation)).max())
    for t in range(STEPS):
        spoil(batch)
        states = batch.step(actions[t])[0]
        for i, reference in enumerate(references):
            observation = reference.step(actions[t, i])[0]
            worst = max(worst, np.abs(states[i] - reference_state(reference, observation)).max())
        contacts += sum(data.ncon for data in batch.data)
    for reference in references:
        reference.close()
    batch.close()
    return worst, contacts


@pytest.mark.parametrize(
    ("domain", "reference_id"),
    [(AntVectorEnv, "Ant-v5"), (HumanoidVectorEnv, "Humanoid-v5"), (HandReachVectorEnv, "HandReach-v3")],
)
def test_equals_the_reference_from_the_same_seed_and_actions(domain, reference_id):
    worst, contacts = worst_difference(domain(3, threads=2), reference_id)
    assert contacts > 50  # otherwise the comparison would prove little
    assert worst <= 1e-9


def test_a_lost_warm_start_would_be_noticed():
    def forget(env):
        for data in env.data:
            data.qacc_warmstart[:] = 0.0

    worst, _ = worst_difference(HumanoidVectorEnv(3), "Humanoid-v5", spoil=forget)
    assert worst > 1e-6


def test_states_far_outside_the_healthy_range_go_on():
    env = AntVectorEnv(1)
    env.reset(seed=0)
    upside_down = env.model.qpos0.copy()
    upside_down[2:7] = 0.3, 0.0, 1.0, 0.0, 0.0
    env.place(0, upside_down, np.zeros(14))
    for _ in range(20):
        _, reward, terminated, truncated, info = env.step(np.ones((1, 8)))
    assert not terminated.any()
    assert not truncated.any()
    assert reward == 0
    assert info == {}
    env.close()

"""How many threads there are cannot be seen in what is learnt.

torch cuts a sum of more than 32,768 numbers, and a dot product, among its threads: the sizes here are above that.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from gymnasium.spaces import Box

from mepol.envs.batched import BatchedEnv
from mepol.finetuning.config import FinetuneConfig, IntrinsicConfig, PpoConfig, SacConfig
from mepol.finetuning.drive import finetune
from mepol.finetuning.learners import LEARNERS
from mepol.finetuning.presets import default_config
from mepol.finetuning.reach import ReachVectorEnv
from mepol.finetuning.start import scratch_policy
from mepol.runs.machine import MachineConfig
from mepol.sb3.adapter import BatchedVecEnv
from mepol.sb3.randomness import drawing_from

THREADS = (1, 2, 4)
LONG = 33_000


class Drift(BatchedEnv):
    """29 coordinates that 8 actions move."""

    feature_names = tuple("abcdefghijklmnopqrstuvwxyzABC")

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs, Box(-np.inf, np.inf, (29,), np.float64), Box(-1, 1, (8,), np.float32))
        self._states = np.zeros((num_envs, 29))

    def start(self, i: int, rng: np.random.Generator) -> None:
        self._states[i] = rng.normal(size=29)

    def advance(self, actions: np.ndarray) -> None:
        self._states = 0.9 * self._states + np.tile(actions, 4)[:, :29]

    def observe(self) -> np.ndarray:
        return self._states.copy()

    def picture(self, i: int) -> np.ndarray:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def learnt(config: FinetuneConfig, out: Path) -> dict[str, bytes]:
    """Every tensor of a run's last checkpoint."""
    run = finetune(config, out)
    assert run.rows()[-1].iteration == config.iterations
    state = safetensors.torch.load_file(run.checkpoints()[0])
    return {name: tensor.numpy().tobytes() for name, tensor in state.items()}


def assert_same_on(threads: tuple[int, ...], config: FinetuneConfig, out: Path) -> None:
    found = [learnt(dataclasses.replace(config, machine=MachineConfig(threads=n)), out / str(n)) for n in threads]
    assert all(other == found[0] for other in found)


def test_trpo_at_the_papers_size(tmp_path):
    config = dataclasses.replace(default_config("grid-goal1"), iterations=1)
    assert (config.lanes, config.horizon, config.hidden) == (10, 1200, (300, 300))
    assert_same_on(THREADS, config, tmp_path)


def test_trpo_with_the_batch_of_ant_navigate():
    # The paper's 100 x 500 steps and layers in a toy: the physics of so many steps takes a minute.
    config = default_config("ant-navigate")
    config = dataclasses.replace(config, trpo=dataclasses.replace(config.trpo, value_passes=1, cg_steps=3))
    assert (config.lanes, config.horizon, config.hidden) == (100, 500, (400, 300))
    found = []
    for threads in (1, 4):
        torch.set_num_threads(threads)
        env = BatchedVecEnv(ReachVectorEnv(Drift(config.lanes), lambda s: s[:, 0] > 3, config.horizon))
        with drawing_from(np.random.SeedSequence(1)):
            learner = LEARNERS["trpo"].make(env, config, scratch_policy(config, 29, env.action_space), 29)
            learner.collect(list(range(config.lanes)))
            learner.learn(0)
        found.append({name: t.numpy().tobytes() for name, t in learner.model.policy.state_dict().items()})
    assert found[0] == found[1]


@pytest.mark.parametrize("algo", ["ppo", "sac", "smm", "pseudocount"])  # icm learns in the very call that smm does
def test_the_other_learners_with_long_batches(algo, tmp_path):
    config = FinetuneConfig(
        task="grid-goal1",
        algo=algo,
        iterations=1,
        horizon=330 if algo == "ppo" else 20,
        hidden=(16,),
        ppo=PpoConfig(steps=LONG, minibatches=1, passes=3),
        sac=SacConfig(steps=40, updates=1, batch=LONG, warmup=40, buffer=400),
        intrinsic=IntrinsicConfig(skills=2),
    )
    assert_same_on((1, 4), config, tmp_path)

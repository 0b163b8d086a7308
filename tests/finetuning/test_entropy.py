"""The entropy of the visited states as a second reward: its advantages, its promises to the bit, and what it does."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import safetensors.torch
import torch
from gymnasium.spaces import Box
from scipy.special import digamma
from test_finetune_run import TINY as PLAIN

from mepol.algorithm.policy import GaussianPolicy
from mepol.api import begin_finetuning
from mepol.cli import main
from mepol.envs.domain import Domain
from mepol.envs.gridworld import GridWorldVectorEnv
from mepol.errors import ConfigError
from mepol.finetuning.config import EntropyConfig, FinetuneConfig, PpoConfig, TrpoConfig
from mepol.finetuning.drive import finetune, resume
from mepol.finetuning.entropy import EntropyTerm, Paid
from mepol.finetuning.learners import LEARNERS
from mepol.finetuning.reach import ReachVectorEnv
from mepol.finetuning.rows import FINETUNE
from mepol.finetuning.start import scratch_policy
from mepol.finetuning.tasks import Task
from mepol.runs.directory import RunDirectory
from mepol.runs.machine import MachineConfig
from mepol.sb3.adapter import BatchedVecEnv
from mepol.sb3.library import RolloutBuffer
from mepol.sb3.randomness import drawing_from
from mepol.sb3.rollout import Played, credit

TINY = dataclasses.replace(PLAIN, entropy=EntropyConfig(entropy_weight=0.5, entropy_decay=0.1, entropy_k=3))
KINDS = ("state", "value-conditional")


def with_entropy(config: FinetuneConfig, **changes: object) -> FinetuneConfig:
    return dataclasses.replace(config, entropy=dataclasses.replace(config.entropy, **changes))


def learnt(run: RunDirectory) -> tuple[list[object], dict[str, bytes]]:
    """Rows without their seconds, and every tensor of the last checkpoint."""
    rows = [dataclasses.replace(row, sample_s=None, learn_s=None) for row in run.rows()]
    tensors = safetensors.torch.load_file(run.checkpoints()[0])
    return rows, {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


# --- Advantages -----------------------------------------------------------------------------------------------------


def three_steps() -> tuple[RolloutBuffer, Played]:
    """Two lanes of three steps in one coordinate: on the left time cuts an episode, on the right one ends by itself."""
    buffer = RolloutBuffer(3, Box(0, 1, (1,)), Box(0, 1, (1,)), "cpu", gae_lambda=0.5, gamma=0.5, n_envs=2)
    buffer.observations[:, :, 0] = [[4, 0], [2, 4], [8, 2]]
    buffer.episode_starts[:] = [[1, 1], [0, 0], [1, 0]]
    ends = (np.array([1, 2]), np.array([0, 1]), np.array([[12], [100]], dtype=np.float32), np.array([True, False]))
    return buffer, Played(*ends, np.array([[6], [50]], dtype=np.float32), np.array([False, True]))


def test_other_rewards_are_credited_by_hand():
    buffer, played = three_steps()
    rewards = np.array([[1.0, 2.0], [1.0, 0.0], [1.0, 3.0]])
    gain, returns = credit(buffer, played, rewards, lambda states: states[:, 0])
    # Backwards, left: 1 + 6/2 - 8; 1 + 12/2 - 2, an end; 1 + 2/2 - 4 + 5/4.
    # Right: 3 - 2, an end; 2/2 - 4 + 1/4; 2 + 4/2 - 11/16.
    expected = np.array([[-0.75, 3.3125], [5.0, -2.75], [-4.0, 1.0]])
    assert np.array_equal(gain, expected.astype(np.float32))
    assert np.array_equal(returns, expected + buffer.observations[:, :, 0])
    assert played.reached(buffer.observations)[:, :, 0].tolist() == [[2, 4], [12, 2], [6, 100]]


def test_the_advantages_of_both_rewards_are_added_and_the_weight_decays():
    domain = Domain.of(GridWorldVectorEnv(1), name="grid")
    config = with_entropy(TINY, entropy_weight=2.0, entropy_decay=0.25)
    for iteration, beta in ((0, 2.0), (3, 2.0 * 0.75**3)):
        buffer, played = three_steps()
        buffer.advantages[:] = own = np.arange(6, dtype=np.float32).reshape(3, 2)
        nats = np.array([[1.0, 5.0], [3.0, 3.0], [1.0, 5.0]])
        EntropyTerm(config, domain, 1).add_to(buffer, Paid(played, nats, 0.0), iteration)
        r = (nats - 3.0) / np.std(nats)  # its own value function is zero as yet: bare sums with factor 1/4
        entropy = [
            [r[0, 0] + r[1, 0] / 4, r[0, 1] + r[1, 1] / 4 + r[2, 1] / 16],
            [r[1, 0], r[1, 1] + r[2, 1] / 4],
            r[2],
        ]
        np.testing.assert_allclose(buffer.advantages, own + beta * np.array(entropy), rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_reward_is_of_the_states_that_were_reached(kind):
    env = BatchedVecEnv(ReachVectorEnv(GridWorldVectorEnv(4), lambda s: s[:, 0] > -4.9, 10))
    config = with_entropy(TINY, entropy_kind=kind)
    domain = Domain.of(env.env, name="grid")
    with drawing_from(np.random.SeedSequence(1)):
        learner = LEARNERS["trpo"].make(env, config, scratch_policy(config, 2, env.action_space), 2)
        learner.regularise(EntropyTerm(config, domain, 2))
        learner.collect([1, 2, 3, 4])
    paid, observed = learner._paid, learner.model.rollout_buffer.observations
    reached = paid.played.reached(observed)
    goals = paid.played.states[~paid.played.cut]
    assert len(goals) > 0
    assert (goals[:, 0] > -4.9).all()
    on = learner.model.rollout_buffer.episode_starts[1:] == 0
    assert np.array_equal(reached[:-1][on], observed[1:][on])
    assert not np.isin(observed[1:][~on], reached).all()  # a start is no particle
    if kind == "state":
        points = reached.reshape(-1, 2).astype(np.float64)
        nearest = np.sort(np.linalg.norm(points[:, None] - points, axis=-1))[:, 3]  # itself is the first
        floor = 1e-3 * np.sqrt(np.mean(np.var(points, axis=0)))
        assert 0 < np.count_nonzero(nearest < floor) < 30  # some stand in the corner
        nats = np.log(np.pi * np.maximum(nearest, floor) ** 2)
        np.testing.assert_allclose(paid.rewards.flatten(), nats, rtol=1e-9)
        assert learner.state_entropy == pytest.approx(nats.mean() + np.log(40) - digamma(3))


# --- To the bit -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ["trpo", "ppo"])
def test_without_weight_it_is_the_plain_learner(tmp_path, algo):
    plain = dataclasses.replace(TINY, algo=algo, entropy=EntropyConfig())
    expected = learnt(finetune(plain, tmp_path / "plain"))
    zero = with_entropy(plain, entropy_kind="value-conditional", entropy_k=7)
    assert learnt(finetune(zero, tmp_path / "zero")) == expected
    # And with the whole machinery in motion, where the weight has become zero: it touches nothing of the learner's.
    gone = with_entropy(dataclasses.replace(TINY, algo=algo), entropy_weight=1e-300, entropy_decay=0.0)
    rows, tensors = learnt(finetune(gone, tmp_path / "gone"))
    assert all(row.state_entropy is not None for row in rows)
    assert [dataclasses.replace(row, state_entropy=None) for row in rows] == expected[0]
    assert {name: tensors[name] for name in expected[1]} == expected[1]
    assert any("entropy_value" in name for name in tensors.keys() - expected[1].keys())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algo", ["trpo", "ppo"])
def test_a_resumed_run_equals_one_never_stopped(tmp_path, algo, kind):
    config = with_entropy(dataclasses.replace(TINY, algo=algo), entropy_kind=kind)
    whole = learnt(finetune(config, tmp_path / "whole"))
    finetune(dataclasses.replace(config, iterations=1), tmp_path / "parts")
    assert learnt(resume(tmp_path / "parts", length=3)) == whole
    assert "optimiser.entropy_value.0.exp_avg" in whole[1]
    assert len({row.state_entropy for row in whole[0]}) == 4
    plain = dataclasses.replace(config, entropy=EntropyConfig())
    assert learnt(finetune(plain, tmp_path / "plain"))[1]["policy.log_std"] != whole[1]["policy.log_std"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_cannot_be_seen(tmp_path, kind):
    # 17,000 states: torch would cut a sum of their 34,000 numbers among its threads
    config = dataclasses.replace(TINY, algo="ppo", iterations=1, horizon=170, ppo=PpoConfig(steps=17_000, passes=1))
    config = with_entropy(config, entropy_kind=kind, entropy_k=12)
    before = torch.get_num_threads()
    try:
        found = [
            learnt(finetune(dataclasses.replace(config, machine=MachineConfig(threads=n)), tmp_path / str(n)))
            for n in (1, 4)
        ]
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


# --- What it does ---------------------------------------------------------------------------------------------------


def test_without_any_reward_the_states_spread(tmp_path):
    nowhere = Task("mepol/GridWorld-v0", lambda states: np.zeros(len(states), dtype=bool), 50)
    config = FinetuneConfig(
        task="given:nowhere",
        env="mepol/GridWorld-v0",
        iterations=6,
        horizon=50,
        machine=MachineConfig(threads=1),
        trpo=TrpoConfig(steps=1000, kl=0.03, value_passes=1, cg_steps=4),
    )
    walk = GaussianPolicy(2, 2, (32,))  # at random out of the corner: no mean, a ninth of the room
    walk.initialise(np.random.default_rng(0), log_std=-1.5)
    with torch.no_grad():
        walk.layers[-1].weight.zero_()
        walk.layers[-1].bias.zero_()
        walk.scale.fill_(3.0)
    spread = []
    for weight in (1e-9, 100.0):  # next to nothing, and next to nothing else
        run = finetune(with_entropy(config, entropy_weight=weight), tmp_path / f"{weight}", task=nowhere, start=walk)
        spread.append([row.state_entropy for row in run.rows()])
    assert spread[0][0] == spread[1][0]
    assert np.mean(spread[1][-3:]) > spread[1][0] + 0.4
    assert np.mean(spread[1][-3:]) > np.mean(spread[0][-3:]) + 0.4


# --- The outside ----------------------------------------------------------------------------------------------------


def test_what_cannot_be_is_refused_in_a_sentence(tmp_path, capsys):
    with pytest.raises(ConfigError, match=r"entropy_weight = 0\.5 is not possible: it must be 0 with sac: only trpo"):
        dataclasses.replace(TINY, algo="sac")
    with pytest.raises(ConfigError, match=r"entropy_k = 40 is not possible: it must be less than the 40 states"):
        with_entropy(TINY, entropy_k=40)
    with pytest.raises(ConfigError, match=r"entropy_decay = 1\.5"):
        EntropyConfig(entropy_decay=1.5)
    with pytest.raises(ConfigError, match="features are a function"):
        EntropyTerm(TINY, dataclasses.replace(Domain.of(GridWorldVectorEnv(1), name="g"), features=np.asarray), 2)
    argv = ["finetune", "grid-goal1", "--algo", "icm", "--entropy-weight", "0.1", "--out", str(tmp_path / "run")]
    assert main(argv) == 2
    assert "only trpo and ppo" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_command_line_and_what_it_stores(tmp_path, capsys):
    small = ["--horizon", "10", "--trpo.steps", "20", "--hidden", "8", "--threads", "1", "--iterations", "1"]
    own = ["--entropy-weight", "0.1", "--entropy-kind", "value-conditional", "--entropy-decay", "0.05"]
    assert main(["finetune", "ant-escape", *small, *own, "--out", str(tmp_path / "run")]) == 0
    run = RunDirectory.open(tmp_path / "run")
    assert run.config.entropy == EntropyConfig(0.1, "value-conditional", 0.05)
    assert all(row.state_entropy is not None for row in run.rows())
    capsys.readouterr()
    assert main(["finetune", "grid-goal1", "--help"]) == 0
    assert "--entropy-weight" in capsys.readouterr().out
    assert main(["finetune", "grid-goal1", "--help-all"]) == 0
    shown = capsys.readouterr().out
    assert all(flag in shown for flag in ("--entropy-kind", "--entropy-decay", "--entropy-k "))


def test_runs_of_before_still_open(tmp_path):
    run = begin_finetuning(dataclasses.replace(TINY, entropy=EntropyConfig(), iterations=1), tmp_path / "run")
    settings = json.loads((run.path / "config.json").read_text())
    del settings["entropy"]
    (run.path / "config.json").write_text(json.dumps(settings))
    table = (run.path / "metrics.csv").read_text().splitlines()
    assert table[0].endswith(",state_entropy")
    (run.path / "metrics.csv").write_text("".join(line.rpartition(",")[0] + "\n" for line in table))
    again = RunDirectory.open(run.path)
    assert again.config.entropy == EntropyConfig()
    assert [row.state_entropy for row in again.rows()] == [None, None]
    resumed = resume(run.path, length=2)
    assert [row.iteration for row in resumed.rows()] == [0, 1, 2]
    assert FINETUNE.metrics.columns[-1] == "state_entropy"

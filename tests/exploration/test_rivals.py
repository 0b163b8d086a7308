"""RND, RE3 and APT as explorers: what their rewards see, whole small runs, and what is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from same import assert_same_run, timeless
from scipy.spatial.distance import cdist

import mepol
from mepol.algorithm.batch import Batch
from mepol.algorithm.policy import GaussianPolicy
from mepol.cli import main
from mepol.envs.domain import Domain
from mepol.envs.make import make_env
from mepol.errors import ConfigError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import explore
from mepol.exploration.explorers import explorer_kind
from mepol.exploration.presets import starting_config
from mepol.exploration.rivals.config import AptConfig, Re3Config, RndConfig
from mepol.exploration.rivals.explorer import transitions
from mepol.exploration.rivals.ppo import PpoRival
from mepol.exploration.workshop import open_workshop
from mepol.sampling.actors import SquashedPolicy
from mepol.settings import with_settings

RIVALS = ("apt", "re3", "rnd")
SMALL = [
    *("--horizon", "40", "--trajectories", "4", "--k", "4", "--threads", "1", "--hidden", "8", "--eps", "1e-9"),
    *("--zero-mean-steps", "2", "--evaluation-trajectories", "5", "--evaluate-every", "1", "--reward-width", "16"),
]


LEARNERS = {"ppo": GaussianPolicy, "sac": SquashedPolicy}
SAC = {"learner": "sac", "sac_updates": 3, "sac_batch": 32, "sac_buffer": 400}  # fewer than three epochs have


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("explorer", RIVALS)
def test_a_run_by_the_command_line_that_is_stopped_goes_on_to_the_same_bits(
    explorer: str, learner: str, tmp_path: Path
) -> None:
    own = SAC if learner == "sac" else {}
    options = [word for name, value in own.items() for word in ("--" + name.replace("_", "-"), str(value))]
    command = ["explore", "gridworld", "--explorer", explorer, *SMALL, *options, "--seed", "3"]
    assert main([*command, "--epochs", "3", "--out", str(tmp_path / "whole")]) == 0
    assert main([*command, "--epochs", "1", "--out", str(tmp_path / "parts")]) == 0
    assert main(["resume", str(tmp_path / "parts"), "--epochs", "3"]) == 0
    assert_same_run(tmp_path / "whole", tmp_path / "parts", settings=False)
    run = mepol.open(tmp_path / "whole")
    assert run.metrics["samples"].tolist() == [0, 160, 320, 480]
    assert isinstance(run.policy, LEARNERS[learner])
    with pytest.raises(AssertionError):  # the epochs did something
        torch.testing.assert_close(run.policy.state_dict(), run.initial.state_dict())


@pytest.mark.parametrize(("explorer", "own"), [*((rival, {}) for rival in RIVALS), ("apt", SAC)])
def test_the_number_of_threads_changes_no_digit(
    explorer: str, own: dict[str, Any], tiny: Callable, tmp_path: Path
) -> None:
    """48 x 60 steps: sums over more than 32,768 numbers, which torch would share out."""
    found = []
    for threads in (1, 2):
        config = tiny(explorer=explorer, trajectories=48, epochs=2, threads=threads, hidden=(32, 32))
        config = with_settings(config, own)
        path = explore(config, tmp_path / str(threads)).path
        found.append((timeless(path), (path / "policy.safetensors").read_bytes()))
    assert found[0][0] == found[1][0]
    assert torch.equal(*(mepol.load_policy(tmp_path / str(n) / "policy.safetensors").layers[0].weight for n in (1, 2)))


def test_a_reward_sees_the_features_or_the_state_and_actions_between_one_and_minus_one() -> None:
    domain = Domain.of(make_env("mepol/MountainCar-v0", 1), name="x", features="velocity", scale_features="bounds")
    states = np.array([[[0.0, 0.01], [0.1, 0.02], [0.2, 0.03]], [[0.5, 0.04], [0.6, 0.05], [9.0, 9.0]]])
    batch = Batch(states, np.array([[[0.5], [-3.0]], [[1.0], [7.0]]], dtype=np.float32), np.array([2, 1]))
    seen = transitions(batch, domain, "features")
    np.testing.assert_allclose(seen.obs, np.array([[0.01], [0.02], [0.04]]) / 0.14, rtol=1e-5)
    np.testing.assert_allclose(seen.next_obs, np.array([[0.02], [0.03], [0.05]]) / 0.14, rtol=1e-5)
    low, high = domain.action_low, domain.action_high
    np.testing.assert_allclose(seen.actions, 2 * (np.clip([[0.5], [-3.0], [1.0]], low, high) - low) / (high - low) - 1)
    whole = transitions(batch, domain, "state")
    np.testing.assert_allclose(whole.next_obs, [[0.1, 0.02], [0.2, 0.03], [0.6, 0.05]], rtol=1e-6)


def rival(config: ExploreConfig) -> Any:
    with open_workshop(config) as workshop:
        return explorer_kind(config.explorer).make(workshop)


def test_rewards_are_paid_in_units_of_their_deviation_and_lose_weight(tiny: Callable) -> None:
    own = Re3Config(reward_encoder="none", reward_decay=0.25)
    explorer, plain = (
        rival(tiny(explorer="re3", rival=dataclasses.replace(own, scale_reward=scale))) for scale in (True, False)
    )
    states = np.random.default_rng(0).normal(size=(4, 61, 2))
    steps = transitions(Batch(states, np.zeros((4, 60, 2), np.float32), np.full(4, 60)), explorer.domain, "features")
    raw = explorer.reward.reward(steps).numpy()
    np.testing.assert_allclose(explorer.pay(steps, 0), raw / raw.std(), rtol=1e-5)
    np.testing.assert_allclose(plain.pay(steps, 2), raw * 0.75**2, rtol=1e-5)


def test_sac_is_paid_for_what_it_remembers_in_the_units_that_the_reward_sees(tiny: Callable) -> None:
    """Remembered states are raw and their networks' view is scaled: neither may reach the reward."""
    own = {**SAC, "reward_encoder": "none", "scale_reward": False, "reward_pool": 0, "scale_inputs": True}
    explorer = rival(with_settings(tiny(explorer="re3"), own))
    states = np.random.default_rng(0).uniform(-1, 1, (4, 61, 2))
    batch = Batch(states, np.zeros((4, 60, 2), np.float32), np.full(4, 60))
    explorer.learner.store(batch)
    drawn = explorer.learner.replay.sample(240)
    raw = drawn.next_observations * explorer.learner.scale + explorer.learner.shift
    distances = np.sort(cdist(raw, raw), axis=1)[:, 3]  # the third neighbour; a step drawn twice is its own
    np.testing.assert_allclose(drawn.rewards[:, 0], np.log1p(distances), rtol=1e-3, atol=1e-5)
    assert drawn.rewards.max() > 0


def test_inputs_are_standardised_by_the_first_batch_without_changing_what_sampled_it() -> None:
    small = {"trajectories": 3, "horizon": 5, "hidden": (8, 8), "threads": 1, "ppo_rate": 1e-12}  # which moves nothing
    config = with_settings(starting_config("humanoid", explorer="rnd", quick=True), small)
    with open_workshop(config) as workshop:
        explorer = PpoRival(workshop)
        before = explorer.actor()
        batch = explorer.improve(0).batch
        after = explorer.actor()
    free = ~np.isfinite(explorer.domain.high) & (batch.states[:, :-1].std(axis=(0, 1)) > 0)
    assert free.any()
    np.testing.assert_allclose(after.shift[free], batch.states[:, :-1].mean(axis=(0, 1))[free], rtol=1e-4, atol=1e-5)
    assert not torch.equal(before.shift, after.shift)
    states = torch.from_numpy(batch.states).float()
    with torch.no_grad():
        torch.testing.assert_close(after.mean(states), before.mean(states), rtol=0, atol=1e-5)


def test_what_ppo_cannot_do_and_pools_without_neighbours_are_refused(tiny: Callable) -> None:
    with pytest.raises(ConfigError, match=r"noise_correlation = 0\.5 is not possible: it must be 0"):
        rival(tiny(explorer="rnd", noise_correlation=0.5))
    for kind, k in ((AptConfig, 12), (Re3Config, 3)):
        with pytest.raises(ConfigError, match=f"reward_pool = {k} is not possible: it must be 0, or above reward_k"):
            kind(reward_pool=k)
    with pytest.raises(ConfigError, match="must be 0, since SAC draws white noise"):
        rival(with_settings(tiny(explorer="apt", noise_correlation=0.5), SAC))
    with pytest.raises(ConfigError, match=r"ppo_rate = 0\.0 is not possible"):
        RndConfig(ppo_rate=0.0)


def test_re3_covers_more_of_the_gridworld_than_it_began_with(tmp_path: Path) -> None:
    run = mepol.explore(
        "gridworld",
        fast=True,
        explorer="re3",
        reward_encoder="none",
        ppo_kl=0.01,
        trajectories=20,
        horizon=300,
        epochs=8,
        evaluate_every=0,
        evaluation_trajectories=20,
        threads=1,
        out=tmp_path / "run",
        progress=False,
    )
    index, cells = run.metrics["index"], run.metrics["cells"]
    assert index[-1] > index[0] + 0.3
    assert cells[-1] > 1.3 * cells[0]

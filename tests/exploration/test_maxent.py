"""MaxEnt: density and reward against scikit-learn and by hand, TRPO's policy as ours, whole small runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from same import Stopped, assert_same_run, stop_after
from sklearn.neighbors import KernelDensity
from threadpoolctl import threadpool_limits

from mepol.cli import main
from mepol.envs.gridworld import GridWorldVectorEnv
from mepol.envs.make import make_env
from mepol.errors import ConfigError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import explore, resume
from mepol.exploration.maxent.config import MaxEntConfig
from mepol.exploration.maxent.density import Density
from mepol.exploration.maxent.maxent import reward_of
from mepol.exploration.maxent.oracle import batch_shape, critic_batch, train
from mepol.exploration.maxent.rewarded import RewardedVectorEnv
from mepol.exploration.presets import PRESETS
from mepol.runs.directory import RunDirectory
from mepol.runs.machine import MachineConfig
from mepol.runs.policies import load_policy
from mepol.sb3.actors import read_actor
from mepol.sb3.adapter import BatchedVecEnv

RIVAL = MaxEntConfig(
    mixture_size=2,
    density_horizon=30,
    density_trajectories=4,
    density_bandwidth=0.5,
    trpo_iterations=2,
    trpo_steps=120,
)


@pytest.fixture
def small(tiny: Callable) -> Callable[..., ExploreConfig]:
    return lambda **changes: tiny(
        explorer="maxent",
        hidden=(8,),
        evaluate_every=1,
        rival=dataclasses.replace(RIVAL, **changes.pop("rival", {})),
        **changes,
    )


# --- density and reward -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["epanechnikov", "gaussian"])
@pytest.mark.parametrize(("few", "error"), [(0, 0.011), (3000, 1e-9)], ids=["tree", "all"])
@pytest.mark.parametrize("dimensions", [1, 2, 5])
def test_the_density_is_scikit_learns(
    kernel: str, few: int, error: float, dimensions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mepol.exploration.maxent.density.FEW", few)
    rng = np.random.default_rng(0)
    x, where = 100 + rng.normal(size=(3000, dimensions)), 100 + rng.normal(size=(200, dimensions))
    config = dataclasses.replace(RIVAL, density_kernel=kernel, density_bandwidth=0.3)
    found = Density.fit(x, config, rng)(where)
    truth = np.exp(KernelDensity(kernel=kernel, bandwidth=0.3).fit(x).score_samples(where))
    np.testing.assert_allclose(found, truth, rtol=error, atol=1e-9 * truth.max())
    assert Density.fit(x, config, rng)(np.full((1, dimensions), -99.0))[0] == pytest.approx(0.0, abs=1e-12)


def test_a_state_out_of_reach_has_no_density_in_many_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mepol.exploration.maxent.density.FEW", 0)
    rng = np.random.default_rng(0)
    x, where = rng.normal(size=(2000, 24)), rng.normal(size=(50, 24))
    config = dataclasses.replace(RIVAL, density_bandwidth=0.3)
    assert np.linalg.norm(x[:, None] - where, axis=2).min() > 0.3
    assert not Density.fit(x, config, rng)(where).any()
    # what scikit-learn says there is rounding, four orders of magnitude above the eps of the reward
    assert np.exp(KernelDensity(kernel="epanechnikov", bandwidth=0.3).fit(x).score_samples(where)).max() > 1


def test_one_coincident_state_gives_the_kernels_peak() -> None:
    # K(0) / h^d of the Epanechnikov kernel: 63.7 for d = 2, h = 0.1; 74.6 for d = 3, h = 0.2.
    for d, h, peak in ((2, 0.1, 63.7), (3, 0.2, 74.6)):
        density = Density.fit(
            np.zeros((1, d)), dataclasses.replace(RIVAL, density_bandwidth=h), np.random.default_rng(0)
        )
        assert density(np.zeros((1, d)))[0] == pytest.approx(peak, rel=2e-3)


def test_a_thinned_density_is_near_the_whole_one() -> None:
    rng = np.random.default_rng(0)
    x, where = rng.normal(size=(40_000, 2)), rng.normal(size=(100, 2)) * 0.7
    whole = Density.fit(x, dataclasses.replace(RIVAL, density_points=0), rng)
    thinned = Density.fit(x, dataclasses.replace(RIVAL, density_points=4000), rng)
    assert (whole.points, thinned.points) == (40_000, 4000)
    assert np.median(np.abs(thinned(where) / whole(where) - 1)) < 0.1


def test_the_density_is_taken_over_principal_components() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 5)) * [5, 1e-3, 4, 1e-3, 1e-3]
    flat = Density.fit(x, dataclasses.replace(RIVAL, density_pca=2), rng)
    moved = x[:50] + np.array([0, 0.001, 0, 0.001, 0])  # across what PCA drops
    np.testing.assert_allclose(flat(moved), flat(x[:50]), rtol=0.05)
    with pytest.raises(ConfigError, match="density_pca = 6"):
        Density.fit(x, dataclasses.replace(RIVAL, density_pca=6), rng)


def test_the_density_does_not_see_how_many_threads_blas_has() -> None:
    x = np.random.default_rng(0).normal(size=(20_000, 376))  # Humanoid's coordinates
    found = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads, user_api="blas"):
            density = Density.fit(x, dataclasses.replace(RIVAL, density_pca=5), np.random.default_rng(0))
            found.append([density(x[:n]).tobytes() for n in (1, 10, 101)])
    assert found[0] == found[1] == found[2]


def test_the_reward_is_one_over_the_density() -> None:
    x = np.random.default_rng(0).normal(size=(500, 3))
    density = Density.fit(x[:, [2, 0]], RIVAL, np.random.default_rng(0))
    raw = reward_of(density, (2, 0), dataclasses.replace(RIVAL, scale_reward=False))
    np.testing.assert_allclose(raw(x), 1 / (density(x[:, [2, 0]]) + 1e-3))
    np.testing.assert_allclose(reward_of(density, (2, 0), RIVAL)(x), raw(x) * 1e-3)
    assert raw(np.full((1, 3), 50.0))[0] == pytest.approx(1000.0)


# --- TRPO ---------------------------------------------------------------------------------------------------------


def adapter(m: int = 3, horizon: int = 5) -> BatchedVecEnv:
    env = make_env("mepol/GridWorld-v0", m)
    reward = RewardedVectorEnv(env, horizon, lambda s: s[:, 0] + 10, shift=np.ones(2), scale=np.full(2, 2.0))
    return BatchedVecEnv(reward)


def test_the_adapter_pays_for_the_next_state_and_cuts_at_the_horizon() -> None:
    venv = adapter()
    venv.seed(7)
    first = venv.reset()
    for t in range(5):
        seen, rewards, dones, infos = venv.step(np.full((3, 2), 0.1, np.float32))
        states = (np.array([i["terminal_observation"] for i in infos]) if t == 4 else seen) * 2 + 1
        np.testing.assert_allclose(rewards, states[:, 0] + 10, rtol=1e-5)
        assert dones.all() == (t == 4)
    assert all(i["TimeLimit.truncated"] for i in infos)
    assert not np.array_equal(seen, first)  # a new start, from the same generators
    venv.seed(7)
    np.testing.assert_array_equal(venv.reset(), first)


def test_a_diverged_simulation_earns_nothing_and_is_left_as_it_is() -> None:
    class Diverging(GridWorldVectorEnv):
        def step(self, actions: np.ndarray) -> Any:
            *rest, info = super().step(actions)
            return *rest, {**info, "diverged": np.array([True, False])}

    env = RewardedVectorEnv(Diverging(2), 5, lambda s: s[:, 0], shift=np.zeros(2), scale=np.ones(2))
    env.reset(seed=1)
    states, rewards, terminated, truncated, _ = env.step(np.zeros((2, 2)))
    assert rewards.tolist() == [0.0, states[1, 0]]
    assert (states < -4).all()
    assert not (terminated | truncated).any()


def test_trpos_policy_becomes_one_of_ours() -> None:
    from stable_baselines3.common.policies import ActorCriticPolicy

    torch.manual_seed(0)
    venv = adapter()
    kwargs = {"net_arch": {"pi": [7, 5], "vf": [4]}, "activation_fn": torch.nn.ReLU, "log_std_init": -1.3}
    theirs = ActorCriticPolicy(venv.observation_space, venv.action_space, lambda _: 1e-3, **kwargs)
    ours = read_actor(theirs, np.ones(2), np.full(2, 2.0))
    states = torch.randn(20, 2)
    with torch.no_grad():
        mean = theirs.get_distribution((states - 1) / 2).distribution.mean
        np.testing.assert_allclose(ours.mean(states), mean, atol=1e-6)
    assert ours.widths == (2, 7, 5, 2)
    np.testing.assert_allclose(ours.log_std.detach(), -1.3, rtol=1e-6)


def test_training_earns_reward_and_leaves_global_randomness_alone(small: Callable) -> None:
    config = small(horizon=20, rival={"trpo_iterations": 12, "trpo_steps": 400})
    assert batch_shape(config) == (20, 20)
    assert [critic_batch(n) for n in (4000, 5000, 500, 80, 127 * 131)] == [125, 125, 125, 80, 127]
    env = make_env(config.env, 20)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    policies = []
    for _ in range(2):
        policy, steps = train(
            env, lambda s: s[:, 0], config, np.random.SeedSequence(3), shift=np.zeros(2), scale=np.ones(2)
        )
        policies.append(policy)
    assert steps == 12 * 400
    assert torch.equal(policies[0].layers[0].weight, policies[1].layers[0].weight)
    assert policies[0].mean(torch.tensor([[-5.0, -5.0]]))[0, 0] > 0.1  # it learnt to go right
    drawn = np.random.random(), float(torch.rand(()))  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    assert drawn == (np.random.random(), float(torch.rand(())))  # noqa: NPY002


# --- whole runs ---------------------------------------------------------------------------------------------------


def test_a_run_grows_a_mixture_and_resumes_between_rounds(small: Callable, tmp_path: Path) -> None:
    whole = explore(small(), tmp_path / "whole")
    rows = whole.rows()
    a_round = 2 * 120 + 4 * 30  # TRPO's steps and the density's
    assert [(row.epoch, row.samples) for row in rows] == [(0, 0), (1, a_round), (2, 2 * a_round)]
    assert all(row.index is not None for row in rows)
    assert whole.is_finished
    assert len(load_policy(whole.policy_path()).policies) == 2
    with pytest.raises(Stopped):
        explore(small(), tmp_path / "cut", callbacks=(stop_after(1),))
    cut = RunDirectory.open(tmp_path / "cut")
    assert not cut.is_finished
    resume(cut.path)
    assert_same_run(cut.path, whole.path)
    longer = resume(cut.path, length=3)
    assert [row.epoch for row in longer.rows()] == [0, 1, 2, 3]
    assert RunDirectory.open(cut.path).config.rival.mixture_size == 3
    with pytest.raises(ConfigError, match="epochs = 1"):
        resume(cut.path, length=1)


def test_a_round_at_the_papers_size_does_not_see_how_many_threads_there_are(tmp_path: Path) -> None:
    preset = PRESETS["mountain-car"].config_for("maxent")
    assert (preset.horizon, preset.rival.trpo_steps, preset.policy.hidden) == (400, 4000, (300, 300))
    config = dataclasses.replace(
        preset,
        rival=dataclasses.replace(preset.rival, mixture_size=1, trpo_iterations=1),
        evaluation=dataclasses.replace(preset.evaluation, evaluation_trajectories=3),
    )
    before, found = torch.get_num_threads(), []
    for threads in (1, 2, 4):
        run = explore(dataclasses.replace(config, machine=MachineConfig(threads=threads)), tmp_path / str(threads))
        found.append((run.policy_path().read_bytes(), [row.index for row in run.rows()]))
    assert torch.get_num_threads() == before
    assert found[0] == found[1] == found[2]


def test_the_command_line_runs_maxent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--explorer maxent --mixture-size 1 --density-horizon 20 --density-trajectories 3 --trpo-iterations 1"
    rest = "--trpo-steps 80 --horizon 40 --hidden 8 --evaluation-trajectories 4 --threads 1 --scale-inputs"
    out = tmp_path / "run"
    assert main(["explore", "mountain-car", *words.split(), *rest.split(), "--out", str(out)]) == 0
    assert "1 rounds of 1 TRPO updates" in capsys.readouterr().out
    assert main(["evaluate", str(out), "--trajectories", "3", "--json"]) == 0
    policy = load_policy(out / "policy.safetensors").policies[0]
    np.testing.assert_allclose(policy.scale, [0.825, 0.07], rtol=1e-6)


def test_ends_of_episodes_cannot_be_kept(small: Callable, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ignore_termination"):
        explore(small(ignore_termination=False), tmp_path / "run")
    assert not (tmp_path / "run").exists()


# The paper's four tables, by hand.
TABLES = {
    "mountain-car": (60, 400, 100, 0.1, 0, 50, 4000),
    "ant": (30, 10_000, 10, 0.2, 3, 300, 5000),
    "humanoid": (30, 50_000, 20, 1.0, 0, 300, 5000),
    "hand-reach": (30, 10_000, 20, 1.0, 0, 300, 500),
}


@pytest.mark.parametrize("name", TABLES)
def test_presets_hold_the_papers_tables(name: str) -> None:
    m = PRESETS[name].config_for("maxent").rival
    found = (m.mixture_size, m.density_horizon, m.density_trajectories, m.density_bandwidth, m.density_pca)
    assert (*found, m.trpo_iterations, m.trpo_steps) == TABLES[name]
    assert (m.density_kernel, m.trpo_kl, m.trpo_discount) == ("epanechnikov", 0.1, 0.99)
    sources = {row.setting: row.source for row in PRESETS[name].rows_for("maxent")}
    assert "paper" in sources["density_bandwidth"]

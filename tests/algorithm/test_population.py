"""Several policies on one network: each acts as it would alone, and one of them is the single policy to the bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import mepol
from mepol.algorithm.batch import Batch, Paths
from mepol.algorithm.loop import importance_weights
from mepol.algorithm.policy import GaussianPolicy
from mepol.algorithm.population import PopulationPolicy
from mepol.errors import ConfigError, PolicyFileError
from mepol.runs.policies import policy_bytes

SMALL = {"horizon": 30, "hidden": (16, 16), "evaluation_trajectories": 6, "progress": False, "eps": 1e-9}


def population(size: int = 3, correlation: float = 0.0) -> PopulationPolicy:
    policy = PopulationPolicy(4, 2, size, (16, 8), correlation)
    policy.initialise(np.random.default_rng(0), log_std=-0.3)
    with torch.no_grad():
        policy.log_std += torch.arange(2.0 * size).view(size, 2) / 10
    return policy


def batch(m: int = 7, t: int = 5) -> Batch:
    rng = np.random.default_rng(1)
    lengths = np.array([t, t, 2, t, t, 3, t][:m])
    return Batch(rng.normal(size=(m, t + 1, 4)), rng.normal(size=(m, t, 2)).astype(np.float32), lengths)


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_each_trajectory_is_as_likely_as_under_its_own_policy_alone(correlation: float) -> None:
    policy, drawn = population(3, correlation), batch()
    paths = Paths.of(drawn)
    found = paths.log_prob(policy).detach()
    start = 0
    for i, length in enumerate(drawn.lengths):
        alone = Paths.of(Batch(drawn.states[i : i + 1], drawn.actions[i : i + 1], drawn.lengths[i : i + 1]))
        truth = alone.log_prob(policy.head(i % 3)).detach()
        assert torch.allclose(found[start : start + length], truth, atol=1e-5)
        start += length
    every_second = paths.log_prob(policy, slice(1, None, 2)).detach()
    assert torch.allclose(every_second, found[1::2], atol=1e-5)


def test_the_gradient_is_that_of_finite_differences() -> None:
    policy, paths = population(2, 0.5).double(), Paths.of(batch())
    states, actions = paths.states.double(), paths.actions.double()

    def value() -> torch.Tensor:
        return policy.log_prob_along(states, actions, paths.first).square().sum()

    value().backward()
    for parameter in policy.parameters():
        at = (0,) * parameter.ndim
        with torch.no_grad():
            ends = []
            for sign in (1, -2):
                parameter[at] += sign * 1e-6
                ends.append(value().item())
            parameter[at] += 1e-6
        assert parameter.grad is not None
        assert parameter.grad[at].item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-6)


def test_rows_act_as_their_heads_do() -> None:
    policy, obs = population(), np.random.default_rng(2).normal(size=(5, 4))
    means = policy.act(obs, np.random.default_rng(0), deterministic=True)
    for i in range(5):
        alone = policy.head(i % 3).act(obs[i], np.random.default_rng(0), deterministic=True)
        assert np.allclose(means[i], alone, atol=1e-6)
    assert np.array_equal(
        policy.act(obs[0], np.random.default_rng(3)), policy.act(obs[:1], np.random.default_rng(3))[0]
    )


def test_a_density_without_a_trajectory_is_the_mean_over_heads() -> None:
    policy, paths = population(), Paths.of(batch())
    truth = torch.stack([policy.head(h).log_prob(paths.states, paths.actions).exp() for h in range(3)]).mean(0).log()
    assert torch.allclose(policy.log_prob(paths.states, paths.actions), truth, atol=1e-5)


def test_one_policy_is_the_single_one_to_the_bit(tmp_path: Path) -> None:
    runs = [
        mepol.explore("gridworld", fast=True, epochs=2, trajectories=6, out=tmp_path / str(i), **more, **SMALL)
        for i, more in enumerate(({}, {"policies": 1}))
    ]
    assert runs[0].directory.policy_path("last").read_bytes() == runs[1].directory.policy_path("last").read_bytes()
    assert type(runs[1].policy) is GaussianPolicy


def test_a_population_explores_is_resumed_measured_and_begun_with(tmp_path: Path) -> None:
    settings = {**SMALL, "fast": True, "trajectories": 6, "policies": 3, "noise_correlation": 0.5}
    whole = mepol.explore("gridworld", epochs=3, out=tmp_path / "whole", **settings)
    cut = mepol.explore("gridworld", epochs=1, out=tmp_path / "cut", **settings)
    gone_on = mepol.resume(cut, length=3, progress=False)
    assert gone_on.directory.policy_path("last").read_bytes() == whole.directory.policy_path("last").read_bytes()
    assert isinstance(whole.policy, PopulationPolicy)
    assert np.isfinite(whole.evaluate(trajectories=6, eps=1e-9).evaluation.index)
    assert whole.states(trajectories=4).shape == (4, 31, 2)
    start = [whole.policy.log_std.detach()[h].exp().mean().item() for h in range(3)]
    assert len(set(start)) == 3  # they have parted
    task = {"horizon": 40, "trpo.steps": 80, "progress": False}
    tuned = mepol.finetune("grid-goal1", init=whole, iterations=1, out=tmp_path / "task", **task)
    assert type(tuned.initial) is GaussianPolicy
    heads = [policy_bytes(whole.policy.head(h)) for h in range(3)]
    assert policy_bytes(tuned.initial) in heads


def test_the_head_that_earns_most_is_begun_with() -> None:
    from mepol.finetuning.heads import average_return, best_head
    from mepol.finetuning.tasks import Task, make_task

    def far(states: np.ndarray) -> np.ndarray:
        return states[:, 0] > -4.5

    policy = PopulationPolicy(2, 2, 3, (4,))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.zero_()
        policy.log_std -= 5
        policy.layers[-1].bias.copy_(torch.tensor([-1.0, 0.0, 1.0, 0.0, 0.0, 0.0]))  # left, right, still
    with_env = make_task(Task("mepol/GridWorld-v0", far, 60), 4)
    seed = np.random.SeedSequence(0)
    returns = [average_return(policy.head(h), with_env, seed) for h in range(3)]
    assert returns[1] == max(returns) == 1.0
    assert returns[0] < 1.0
    assert policy_bytes(best_head(policy, with_env, seed, "far")) == policy_bytes(policy.head(1))
    with_env.close()


def test_weights_of_a_path_follow_its_own_head() -> None:
    policy, drawn = population(), batch()
    paths = Paths.of(drawn)
    before = paths.log_prob(policy).detach()
    with torch.no_grad():
        policy.log_std[1] += 0.5  # the second head alone
    moved = paths.log_prob(policy).detach() - before
    weights = importance_weights(moved.double(), paths.visited)
    number = np.repeat(np.arange(7), drawn.lengths)
    assert torch.all(moved[torch.from_numpy(number % 3 != 1)] == 0)
    assert torch.all(moved[torch.from_numpy(number % 3 == 1)] != 0)
    assert weights.sum().item() == pytest.approx(1.0)


def test_its_file_holds_it_and_a_forged_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.safetensors"
    mepol.save_policy(population(3, 0.4), path)
    back = mepol.load_policy(path)
    assert isinstance(back, PopulationPolicy)
    assert (back.size, back.correlation) == (3, 0.4)
    assert policy_bytes(back) == path.read_bytes()
    for size in ("0", "4", "99999999", "x"):
        from mepol.runs.policies import with_header

        (tmp_path / "forged").write_bytes(with_header(path.read_bytes(), {"size": size}))
        with pytest.raises(PolicyFileError):
            mepol.load_policy(tmp_path / "forged")


def test_more_policies_than_trajectories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="policies = 7 is not possible: it must be at most the 6 trajectories"):
        mepol.explore("gridworld", trajectories=6, policies=7, out=tmp_path / "run", **SMALL)
    with pytest.raises(ConfigError, match="policies = 2"):
        mepol.explore("gridworld", trajectories=6, policies=2, explorer="maxent", out=tmp_path / "run", **SMALL)

"""Tied weights: images in, images out, whatever is learnt; and a gradient that is the mean over all images."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import mepol
from mepol.algorithm import AscentConfig, Batch, Critic, CriticConfig, GaussianPolicy, KnnLandscape, Mirror, Symmetry
from mepol.algorithm.rules import RULES
from mepol.cli import main
from mepol.errors import ConfigError, MepolError

# Two mirrors of four coordinates and three actions: one turns signs, the other exchanges, and they may be combined.
TURNED = Symmetry(Mirror((0, 1, 2, 3), (-1, -1, 1, 1)), Mirror((0, 1, 2), (-1, -1, 1)))
EXCHANGED = Symmetry(Mirror((1, 0, 3, 2), (1, 1, 1, 1)), Mirror((1, 0, 2), (1, 1, -1)))
BOTH = (TURNED, EXCHANGED)


def new_policy(hidden: tuple[int, ...] = (16, 24), seed: int = 0, *, mirrored: bool = False) -> GaussianPolicy:
    policy = GaussianPolicy(4, 3, hidden)
    policy.initialise(np.random.default_rng(seed), log_std=-0.5)
    policy.tie(BOTH)
    if mirrored:
        policy.mirror()
    return policy


def states_and_actions(n: int = 40, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    return tuple(torch.from_numpy(rng.standard_normal((n, d)).astype(np.float32)) for d in (4, 3))  # type: ignore[return-value]


def small_batch(seed: int = 2) -> Batch:
    rng = np.random.default_rng(seed)
    walk = rng.standard_normal((6, 31, 4)).cumsum(1)
    return Batch(walk, rng.standard_normal((6, 30, 3)).astype(np.float32), np.full(6, 30))


def assert_symmetric(policy: GaussianPolicy) -> None:
    states, actions = states_and_actions()
    with torch.no_grad():
        for one in BOTH:
            image, act = one.states.image(states), one.actions.image(actions)
            torch.testing.assert_close(policy.mean(image), one.actions.image(policy.mean(states)))
            torch.testing.assert_close(policy.log_prob(image, act), policy.log_prob(states, actions))


# --- mirrors --------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from((-1, 1)), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_twice_in_a_mirror_everything_is_what_it_was(signs: list[int], random: Any) -> None:
    names = [str(i) for i in range(len(signs))]
    free = random.sample(names, len(names))
    pairs = dict(zip(free[::2], free[1::2], strict=False)) if random.random() < 0.8 else {}
    turned = {n for n, s in zip(names, signs, strict=True) if s < 0}
    turned |= {pairs[n] for n in turned & set(pairs)} | {a for a, b in pairs.items() if b in turned}
    mirror = Mirror.of(names, exchanged=pairs, turned=turned)
    values = torch.arange(1.0, len(names) + 1)
    assert torch.equal(mirror.image(mirror.image(values)), values)
    for a, b in pairs.items():
        seen = mirror.image(values)[int(a)]
        assert seen == (-1 if a in turned else 1) * values[int(b)]


@pytest.mark.parametrize(
    ("index", "sign"),
    [((1, 2, 0), (1, 1, 1)), ((0, 0), (1, 1)), ((1, 0), (1, -1)), ((0, 2), (1, 1)), ((0,), (2,)), ((0, 1), (1,))],
)
def test_what_is_no_mirror_is_refused(index: tuple[int, ...], sign: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="are no mirror"):
        Mirror(index, sign)


def test_a_name_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match="a mirror names z, which are none of x, y"):
        Mirror.of(("x", "y"), turned={"z"})


# --- networks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mirrored", [False, True])
def test_images_of_states_get_images_of_actions(mirrored: bool) -> None:
    policy = new_policy(mirrored=mirrored)
    assert_symmetric(policy)
    assert policy.has(BOTH)
    assert policy.mean(states_and_actions()[0]).abs().max() > 0.1 or mirrored
    plain = GaussianPolicy(4, 3, (16, 24))
    plain.initialise(np.random.default_rng(0), log_std=-0.5)
    assert not plain.has(BOTH)
    for tied, drawn in zip(policy.parameters(), plain.parameters(), strict=True):  # as wide as they were
        if tied.ndim == 2 and not mirrored:
            assert float((tied.std() / drawn.std()).detach()) == pytest.approx(1.0, abs=0.35)


def test_weights_that_are_symmetric_stay_what_they_are() -> None:
    policy = new_policy()
    before = copy.deepcopy(policy.state_dict())
    policy.tie(BOTH)
    assert all(torch.equal(before[name], tensor) for name, tensor in policy.state_dict().items())


def test_its_gradient_is_that_of_the_states_with_all_their_images() -> None:
    """Truth: an untied network of the same weights, shown each step and its three images."""
    tied, plain = new_policy(), GaussianPolicy(4, 3, (16, 24))
    plain.load_state_dict(tied.state_dict())
    states, actions = states_and_actions()
    tied.log_prob(states, actions).mean().backward()
    seen, acted = [states], [actions]
    for one in BOTH:
        seen += [one.states.image(s) for s in seen]
        acted += [one.actions.image(a) for a in acted]
    assert len(seen) == 4
    plain.log_prob(torch.cat(seen), torch.cat(acted)).mean().backward()
    for ours, truth in zip(tied.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, truth.grad, rtol=1e-4, atol=1e-6)
    lone = GaussianPolicy(4, 3, (16, 24))
    lone.load_state_dict(tied.state_dict())
    lone.log_prob(states, actions).mean().backward()
    assert not torch.allclose(lone.layers[0].weight.grad, plain.layers[0].weight.grad, rtol=1e-2)  # images matter


@pytest.mark.parametrize("rule", ["importance", "advantage"])
def test_a_climb_keeps_it_to_the_last_bit(rule: str) -> None:
    policy, batch = new_policy(mirrored=True), small_batch()
    config = AscentConfig(rule=rule, learning_rate=1e-2, max_steps=5, kl_threshold=1e9)
    ascent = RULES[rule].make(policy, config, CriticConfig(critic_steps=20), 4, np.random.default_rng(3))
    before = copy.deepcopy(policy.state_dict())
    for _ in range(3):
        ascent.climb(batch, KnnLandscape.of(batch.particles((0, 1)), 4))
    moved = [name for name, tensor in policy.state_dict().items() if not torch.equal(before[name], tensor)]
    assert "layers.0.weight" in moved
    assert "log_std" in moved
    assert policy.has(BOTH)
    assert_symmetric(policy)
    spread = policy.log_std.tolist()
    assert spread[0] == spread[1] != spread[2]


def test_a_critic_values_images_alike() -> None:
    critic = Critic(4, CriticConfig(critic_steps=50, critic_rate=1e-2), np.random.default_rng(0))
    critic.tie(BOTH)
    states, _ = states_and_actions(400)
    states = states + 1.0  # whose mean is not that of their images
    critic.watch(states)
    optimiser = torch.optim.Adam(critic.parameters(), lr=1e-2)
    critic.fit(states, states[:, 0].square() + states[:, 2], optimiser)
    with torch.no_grad():
        values = critic(states)
        assert values.std() > 0.3
        for one in BOTH:
            torch.testing.assert_close(critic(one.states.image(states)), values)


def test_without_mirrors_nothing_is_tied() -> None:
    critic = Critic(4, CriticConfig(critic_hidden=(5,)), np.random.default_rng(0))  # of any width
    before = copy.deepcopy(critic.state_dict())
    critic.tie(())
    assert all(torch.equal(before[name], tensor) for name, tensor in critic.state_dict().items())
    assert all(not parameter._backward_hooks for parameter in critic.parameters())


def test_spreads_that_differ_begin_at_their_mean() -> None:
    policy = GaussianPolicy(4, 3, (16,))
    with torch.no_grad():
        policy.log_std.copy_(torch.tensor([-1.0, 0.0, 2.0]))
    policy.tie(BOTH)
    assert policy.log_std.tolist() == [-0.5, -0.5, 2.0]


def test_layers_too_narrow_for_groups_are_refused() -> None:
    with pytest.raises(ConfigError, match="hidden = 12 is not possible: it must be a multiple of 8 with 2 symmetries"):
        new_policy(hidden=(12,))


# --- runs -----------------------------------------------------------------------------------------------------------

SMALL: dict[str, Any] = {
    **{"horizon": 30, "trajectories": 4, "k": 4, "hidden": (8, 8), "epochs": 2, "threads": 1, "eps": 1e-9, "seed": 4},
    **{"evaluation_trajectories": 4, "zero_mean_steps": 5, "learning_rate": 1e-3, "progress": False},
}


def gridworld_mirror() -> tuple[Symmetry, ...]:
    exchanged = Mirror((1, 0), (1, 1))
    return (Symmetry(exchanged, exchanged),)


@pytest.mark.parametrize("rule", ["importance", "advantage"])
def test_a_run_that_is_stopped_goes_on_to_the_same_bits(rule: str, tmp_path: Path) -> None:
    own = {**SMALL, "symmetric": True, "rule": rule, "scale_inputs": True}
    whole = mepol.explore("gridworld", out=tmp_path / "whole", **{**own, "epochs": 4})
    mepol.explore("gridworld", out=tmp_path / "parts", **own)
    parts = mepol.resume(tmp_path / "parts", length=4, progress=False)
    for name, tensor in whole.policy.state_dict().items():
        assert torch.equal(parts.policy.state_dict()[name], tensor)
    assert whole.policy.has(gridworld_mirror())
    assert not torch.equal(whole.policy.layers[0].weight, whole.initial.layers[0].weight)
    plain = mepol.explore("gridworld", out=tmp_path / "plain", **SMALL)
    assert not plain.policy.has(gridworld_mirror())


def test_who_goes_on_from_a_symmetric_policy_may_keep_it_so(tmp_path: Path) -> None:
    first = mepol.explore("gridworld", out=tmp_path / "first", **SMALL, symmetric=True)
    kept = mepol.explore("gridworld", out=tmp_path / "kept", init=first, **SMALL, symmetric=True)
    left = mepol.explore("gridworld", out=tmp_path / "left", init=first, **SMALL)
    assert [run.policy.has(gridworld_mirror()) for run in (first, kept, left)] == [True, True, False]
    plain = mepol.explore("gridworld", out=tmp_path / "plain", **{**SMALL, "hidden": (6, 8)})
    other = mepol.explore("gridworld", out=tmp_path / "other", init=plain, **SMALL, symmetric=True)
    assert not other.policy.has(gridworld_mirror())  # what it started from was not


def test_a_rival_by_ppo_has_it_too(tmp_path: Path) -> None:
    own = {**SMALL, "explorer": "re3", "reward_width": 16, "symmetric": True}
    run = mepol.explore("gridworld", out=tmp_path / "re3", **own)
    assert run.policy.has(gridworld_mirror())
    assert not torch.equal(run.policy.layers[0].weight, run.initial.layers[0].weight)
    with pytest.raises(MepolError, match="symmetric = True is not possible: it must be off with the learner sac"):
        mepol.explore("gridworld", out=tmp_path / "sac", **own, learner="sac")


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        ("mountain-car", {}, "off in mepol/MountainCar-v0, which names no symmetries"),
        ("gridworld", {"policies": 2}, "1 with a symmetric policy"),
        ("gridworld", {"env_kwargs": {"slope": "east"}}, "names no symmetries"),
        ("CartPole-v1", {}, "off where actions are discrete"),
        ("gridworld", {"explorer": "maxent"}, "off with the explorer maxent"),
    ],
)
def test_where_it_cannot_be_is_said(name: str, changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(MepolError, match=why):
        mepol.explore(name, out=tmp_path / "run", **{**SMALL, "symmetric": True, **changes})
    assert not (tmp_path / "run").exists()


def test_the_command_line_knows_it(tmp_path: Path) -> None:
    few = ("--epochs", "1", "--horizon", "30", "--trajectories", "4", "--k", "4", "--evaluation-trajectories", "4")
    out = ("--hidden", "8", "8", "--eps", "1e-9", "--out", str(tmp_path / "run"))
    assert main(["explore", "gridworld", "--symmetric", *few, *out]) == 0
    assert mepol.open(tmp_path / "run").policy.has(gridworld_mirror())

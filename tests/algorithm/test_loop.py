"""Algorithm 1: its gradient, its weights, its trust region, and that a rejected step leaves no trace."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mepol.algorithm import (
    RULES,
    Ascent,
    AscentConfig,
    Batch,
    CriticConfig,
    GaussianPolicy,
    Iterate,
    KnnLandscape,
    Paths,
    climb_by_importance,
    importance_weights,
    make_optimiser,
    mepol,
)
from mepol.envs.make import make_env
from mepol.estimators import neighbour_mass, state_kl, weighted_entropy
from mepol.exploration.drive import Stream, stream
from mepol.sampling.collect import collect
from mepol.settings import with_settings

LENGTHS = [12, 5, 9, 1, 12, 3]


def search(batch: Batch, k: int = 3) -> KnnLandscape:
    return KnnLandscape.of(batch.particles((0, 1)), k)


def make_ascent(policy: GaussianPolicy, config: AscentConfig) -> Ascent:
    return RULES["importance"].make(policy, config, CriticConfig(), policy.widths[0], np.random.default_rng(0))


def objective(policy: GaussianPolicy, sampled: torch.Tensor, batch: Batch, landscape: KnnLandscape) -> Iterate:
    paths = Paths.of(batch)
    return Iterate.of(policy.log_prob(paths.states, paths.actions), sampled, paths, landscape)


def sampled_log_prob(policy: GaussianPolicy, batch: Batch) -> torch.Tensor:
    paths = Paths.of(batch)
    return policy.log_prob(paths.states, paths.actions).detach()


@pytest.fixture
def gridworld_batch(make_policy: Callable) -> tuple[GaussianPolicy, Batch]:
    """A small but real batch: 8 trajectories of 150 steps through the rooms."""
    policy = make_policy(hidden=(32, 32), log_std=-1.5)
    with torch.no_grad():  # means near zero, as the zero-mean start leaves them
        policy.layers[-1].weight.mul_(0.01)
        policy.layers[-1].bias.zero_()
    return policy, collect(policy, make_env("mepol/GridWorld-v0", 8), 150, seed=stream(0, Stream.BATCH))


# --- gradient (Theorem 3) -----------------------------------------------------------------------------------------


@pytest.fixture
def moved(make_policy: Callable, random_walks: Callable) -> tuple[GaussianPolicy, torch.Tensor, Batch, KnnLandscape]:
    """A float64 policy some way from the one that sampled, so that no weight is equal to another."""
    policy = make_policy(hidden=(5, 4)).double()
    batch = random_walks(policy, horizon=12, lengths=LENGTHS)
    sampled = sampled_log_prob(policy, batch)
    rng = np.random.default_rng(5)
    with torch.no_grad():
        for p in policy.parameters():
            p += 0.05 * torch.from_numpy(rng.standard_normal(tuple(p.shape)))
    return policy, sampled, batch, search(batch)


def test_autograd_is_the_derivative(moved: tuple) -> None:
    policy, sampled, batch, landscape = moved
    objective(policy, sampled, batch, landscape).entropy.backward()
    h = 1e-6
    for parameter in policy.parameters():
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        for i in range(len(flat)):
            value = flat[i].item()
            ends = []
            for sign in (1, -1):
                flat[i] = value + sign * h
                ends.append(objective(policy, sampled, batch, landscape).entropy.item())
            flat[i] = value
            assert gradient[i].item() == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6, abs=2e-8)


def test_the_gradient_theorem_holds_with_one_in_place_of_the_volume(moved: tuple) -> None:
    """Theorem 3 prints V + ln(W / V); the derivative of W ln(W / V) is 1 + ln(W / V)."""
    policy, sampled, batch, landscape = moved
    paths = Paths.of(batch)
    parameters = list(policy.parameters())
    truth = torch.autograd.grad(objective(policy, sampled, batch, landscape).entropy, parameters)

    near = landscape.near
    log_volume = torch.from_numpy(near.log_volume)
    forms = {}
    for name, first in (("corrected", torch.ones(near.n, dtype=torch.float64)), ("printed", log_volume.exp())):
        log_prob = policy.log_prob(paths.states, paths.actions)
        mass = neighbour_mass(importance_weights(log_prob - sampled, paths.visited), near)
        factor = (first + mass.detach().log() - log_volume) / near.k
        forms[name] = torch.autograd.grad(-(mass * factor).sum(), parameters)  # grad W_i times its factor

    def gap(name: str) -> float:
        difference = sum((a - b).square().sum() for a, b in zip(forms[name], truth, strict=True))
        return math.sqrt(difference / sum(b.square().sum() for b in truth))

    assert gap("corrected") < 1e-12
    assert gap("printed") > 0.05


def test_the_gradient_of_the_weights_is_that_of_the_theorem(make_policy: Callable, random_walks: Callable) -> None:
    """grad w_j = w_j (sum of scores up to j - the weighted mean of such sums), with one weight perturbed by hand."""
    policy = make_policy(hidden=()).double()
    batch = random_walks(policy, m=2, horizon=3, lengths=[3, 2])
    paths = Paths.of(batch)
    log_ratio = torch.tensor([0.1, -0.3, 0.2, 0.5, -0.1], dtype=torch.float64, requires_grad=True)
    weights = importance_weights(log_ratio, paths.visited)
    jacobian = torch.autograd.functional.jacobian(lambda z: importance_weights(z, paths.visited), log_ratio)
    along = torch.tensor([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 1.0]])
    along = along.double()
    expected = weights[:, None] * (along - weights @ along)
    torch.testing.assert_close(jacobian, expected.detach())


# --- weights ------------------------------------------------------------------------------------------------------


def test_weights_of_two_trajectories_by_hand() -> None:
    visited = torch.tensor([[True, True, True], [True, True, False]])
    ratio = torch.tensor([2.0, 0.5, 3.0, 4.0, 0.25], dtype=torch.float64)
    products = torch.tensor([2.0, 1.0, 3.0, 4.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(importance_weights(ratio.log(), visited), products / 11.0)


def test_weights_neither_overflow_nor_vanish() -> None:
    visited = torch.ones((2, 1000), dtype=torch.bool)
    weights = importance_weights(torch.cat([torch.full((1000,), 50.0), torch.full((1000,), -50.0)]).double(), visited)
    assert torch.isfinite(weights).all()
    assert weights.sum().item() == pytest.approx(1.0)
    assert weights[999].item() == pytest.approx(1.0)


@given(seed=st.integers(0, 10_000), m=st.integers(1, 5), horizon=st.integers(1, 8))
def test_weights_are_normalised_products_along_each_path(seed: int, m: int, horizon: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, horizon + 1, m)
    visited = np.arange(horizon) < lengths[:, None]
    ratios = [np.exp(rng.normal(size=n)) for n in lengths]
    products = np.concatenate([np.cumprod(r) for r in ratios])
    found = importance_weights(torch.from_numpy(np.log(np.concatenate(ratios))), torch.from_numpy(visited))
    np.testing.assert_allclose(found.numpy(), products / products.sum(), rtol=1e-10)


def test_at_equal_policies_float32_gives_eq_1_and_no_kl(gridworld_batch: tuple) -> None:
    policy, batch = gridworld_batch
    assert policy.log_std.dtype == torch.float32
    landscape = search(batch, k=10)
    iterate = objective(policy, sampled_log_prob(policy, batch), batch, landscape)
    assert iterate.entropy.item() == pytest.approx(landscape.entropy(), abs=1e-6)
    assert iterate.kl.item() == pytest.approx(0.0, abs=1e-6)
    assert iterate.ess.item() == pytest.approx(landscape.n, rel=1e-6)


def test_paths_and_particles_are_in_the_same_order(make_policy: Callable, random_walks: Callable) -> None:
    batch = random_walks(make_policy(), horizon=12, lengths=LENGTHS)
    paths = Paths.of(batch)
    i = 0
    for m, length in enumerate(LENGTHS):
        for t in range(length):
            np.testing.assert_array_equal(paths.states[i], batch.states[m, t].astype(np.float32))
            np.testing.assert_array_equal(paths.actions[i], batch.actions[m, t])
            np.testing.assert_array_equal(batch.particles((0, 1))[i], batch.states[m, t + 1])
            i += 1
    assert i == len(paths.states) == batch.size


def test_what_lies_beyond_a_trajectory_is_never_read(make_policy: Callable, random_walks: Callable) -> None:
    results = []
    for garbage in (0.0, 1e30, np.nan, -np.inf):
        policy = make_policy()
        batch = random_walks(policy, horizon=12, lengths=LENGTHS)
        states, actions = batch.states.copy(), batch.actions.copy()
        for m, length in enumerate(LENGTHS):
            states[m, length + 1 :] = garbage
            actions[m, length:] = garbage
        batch = Batch(states, actions, batch.lengths)
        landscape = search(batch)
        config = AscentConfig(k=3, learning_rate=1e-3, max_steps=5)
        steps = climb_by_importance(policy, make_optimiser(policy, config), batch, landscape, config)
        results.append((steps, landscape.near.index.tolist(), [p.tolist() for p in policy.parameters()]))
    assert all(result == results[0] for result in results[1:])


# --- trust region -------------------------------------------------------------------------------------------------


def snapshot(policy: GaussianPolicy, optimiser: torch.optim.Optimizer) -> tuple:
    parameters = [p.detach().clone() for p in policy.parameters()]
    state = [copy.deepcopy(optimiser.state[p]) for p in policy.parameters() if p in optimiser.state]
    return parameters, state


def assert_same(before: tuple, after: tuple) -> None:
    for old, new in zip(before[0], after[0], strict=True):
        assert torch.equal(old, new)
    assert len(before[1]) == len(after[1])
    for old, new in zip(before[1], after[1], strict=True):
        assert old.keys() == new.keys()
        assert all(torch.equal(torch.as_tensor(old[name]), torch.as_tensor(new[name])) for name in old)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("optimiser_name", ["adam", "sgd"])
def test_a_rejected_step_leaves_no_trace(gridworld_batch: tuple, warm: bool, optimiser_name: str) -> None:
    policy, batch = gridworld_batch
    landscape = search(batch, k=10)
    optimiser = make_optimiser(policy, AscentConfig(optimiser=optimiser_name))
    if warm:  # moments and step counts that are not zero
        gentle = AscentConfig(k=10, learning_rate=1e-5, max_steps=3, optimiser=optimiser_name)
        assert len(climb_by_importance(policy, optimiser, batch, landscape, gentle)) == 3
    before = snapshot(policy, optimiser)
    wild = AscentConfig(
        k=10, kl_threshold=1e-9, learning_rate=1e4, max_steps=5, max_backtracks=0, optimiser=optimiser_name
    )
    steps = climb_by_importance(policy, optimiser, batch, landscape, wild)
    assert [step.accepted for step in steps] == [False]
    assert_same(before, snapshot(policy, optimiser))


def test_after_a_rejection_the_next_step_is_the_one_it_would_have_been(gridworld_batch: tuple) -> None:
    """Undone at rate a and tried at a / 2 gives what a first try at a / 2 gives, bit for bit."""
    policy, batch = gridworld_batch
    landscape = search(batch, k=10)
    twin = copy.deepcopy(policy)
    config = AscentConfig(k=10, kl_threshold=1.0, learning_rate=1.0, max_steps=30, max_backtracks=40)
    optimiser = make_optimiser(policy, config)
    steps = climb_by_importance(policy, optimiser, batch, landscape, config)
    rejected = [step for step in steps if not step.accepted]
    assert rejected
    assert steps[-1].accepted
    direct = AscentConfig(k=10, kl_threshold=1.0, learning_rate=steps[-1].learning_rate, max_steps=1)
    twin_optimiser = make_optimiser(twin, direct)
    (only,) = climb_by_importance(twin, twin_optimiser, batch, landscape, direct)
    assert only == steps[-1]
    assert_same(snapshot(policy, optimiser), snapshot(twin, twin_optimiser))


@pytest.mark.parametrize("threshold", [0.01, 0.5, 15.0])
@pytest.mark.parametrize("rate", [1e-5, 1e-3, 1e-1])
@pytest.mark.parametrize("optimiser_name", ["adam", "sgd"])
def test_the_rules_of_the_trust_region(
    gridworld_batch: tuple, threshold: float, rate: float, optimiser_name: str
) -> None:
    policy, batch = gridworld_batch
    landscape = search(batch, k=10)
    sampled = sampled_log_prob(policy, batch)
    config = AscentConfig(
        k=10, kl_threshold=threshold, learning_rate=rate, max_steps=6, max_backtracks=4, optimiser=optimiser_name
    )
    steps = climb_by_importance(policy, make_optimiser(policy, config), batch, landscape, config)
    accepted = [step for step in steps if step.accepted]
    assert all(step.kl <= threshold for step in accepted)
    assert all(not step.kl <= threshold or not math.isfinite(step.entropy) for step in steps if not step.accepted)
    assert len(accepted) <= config.max_steps
    first = next((i for i, step in enumerate(steps) if not step.accepted), len(steps))
    assert sum(step.accepted for step in steps[first:]) <= 1
    assert len(steps) - len(accepted) <= config.max_backtracks + 1
    backtracks = itertools.accumulate([0, *(not step.accepted for step in steps[:-1])])
    assert [step.learning_rate for step in steps] == [rate / 2**i for i in backtracks]
    # The policy is left at the last accepted iterate, and its numbers are those of the step.
    final = objective(policy, sampled, batch, landscape)
    if accepted:
        assert final.entropy.item() == accepted[-1].entropy
        assert final.kl.item() == accepted[-1].kl
        assert final.ess.item() == accepted[-1].ess
    else:
        assert final.kl.item() == pytest.approx(0.0, abs=1e-12)


def test_entropy_grows_along_the_accepted_steps(gridworld_batch: tuple) -> None:
    policy, batch = gridworld_batch
    landscape = search(batch, k=10)
    config = AscentConfig(k=10, learning_rate=1e-5, max_steps=20)
    steps = climb_by_importance(policy, make_optimiser(policy, config), batch, landscape, config)
    assert len(steps) == 20
    climb = [landscape.entropy(), *(step.entropy for step in steps)]
    assert all(later > earlier for earlier, later in itertools.pairwise(climb))
    assert climb[-1] > climb[0] + 0.02


def test_sgd_is_the_plain_gradient_of_the_paper(gridworld_batch: tuple) -> None:
    policy, batch = gridworld_batch
    landscape = search(batch, k=10)
    rate = 1e-4
    value = objective(policy, sampled_log_prob(policy, batch), batch, landscape).entropy
    gradient = torch.autograd.grad(value, list(policy.parameters()))
    expected = [p.detach() + rate * g for p, g in zip(policy.parameters(), gradient, strict=True)]
    config = AscentConfig(k=10, learning_rate=rate, max_steps=1, optimiser="sgd")
    climb_by_importance(policy, make_optimiser(policy, config), batch, landscape, config)
    for found, truth in zip(policy.parameters(), expected, strict=True):
        torch.testing.assert_close(found.detach(), truth, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("damping", [1e-8, 0.01, 1.0])
def test_the_first_step_of_adam_is_the_gradient_over_its_size_and_the_damping(
    gridworld_batch: tuple, damping: float
) -> None:
    policy, batch = gridworld_batch
    landscape = search(batch, k=10)
    rate = 1e-4
    value = objective(policy, sampled_log_prob(policy, batch), batch, landscape).entropy
    gradient = torch.autograd.grad(value, list(policy.parameters()))
    expected = [p.detach() + rate * g / (g.abs() + damping) for p, g in zip(policy.parameters(), gradient, strict=True)]
    config = AscentConfig(k=10, learning_rate=rate, max_steps=1, damping=damping)
    climb_by_importance(policy, make_optimiser(policy, config), batch, landscape, config)
    for found, truth in zip(policy.parameters(), expected, strict=True):
        torch.testing.assert_close(found.detach(), truth, rtol=1e-4, atol=1e-7)


def test_a_step_to_where_nothing_is_a_number_is_undone(gridworld_batch: tuple) -> None:
    policy, batch = gridworld_batch
    landscape = search(batch, k=10)
    before = [p.detach().clone() for p in policy.parameters()]
    config = AscentConfig(k=10, learning_rate=1e30, max_steps=3, max_backtracks=2)
    steps = climb_by_importance(policy, make_optimiser(policy, config), batch, landscape, config)
    assert [step.accepted for step in steps] == [False, False, False]
    assert all(torch.equal(a, b) for a, b in zip(before, policy.parameters(), strict=True))


# --- the whole loop -----------------------------------------------------------------------------------------------


def test_epochs_are_numbered_by_the_policy_that_drew_them(make_policy: Callable, random_walks: Callable) -> None:
    policy = make_policy()
    config = AscentConfig(k=3, learning_rate=1e-3, max_steps=2)
    seen: list[tuple[int, list]] = []

    def sample(epoch: int) -> Batch:
        seen.append((epoch, [p.tolist() for p in policy.parameters()]))
        return random_walks(policy, seed=epoch)

    loop = mepol(sample, search, make_ascent(policy, config).climb, first_epoch=5)
    epochs = [next(loop) for _ in range(3)]
    assert [epoch.epoch for epoch in epochs] == [5, 6, 7]
    assert [number for number, _ in seen] == [5, 6, 7]
    assert len({str(parameters) for _, parameters in seen}) == 3  # each batch came from another policy
    fresh = make_policy()
    for epoch, (number, parameters) in zip(epochs, seen, strict=True):
        with torch.no_grad():
            for p, value in zip(fresh.parameters(), parameters, strict=True):
                p.copy_(torch.tensor(value))
        landscape = search(random_walks(fresh, seed=number))
        assert epoch.entropy == landscape.entropy()  # the entropy is of the policy that drew the batch
        assert epoch.particles == landscape.n
        assert epoch.kl == epoch.steps[-1].kl
        assert epoch.ess == epoch.steps[-1].ess


def test_an_epoch_without_accepted_steps_has_not_moved(make_policy: Callable, random_walks: Callable) -> None:
    policy = make_policy()
    config = AscentConfig(k=3, learning_rate=1e6, max_steps=2, max_backtracks=0)
    loop = mepol(lambda _: random_walks(policy), search, make_ascent(policy, config).climb)
    epoch = next(loop)
    assert epoch.accepted == ()
    assert epoch.kl == 0.0
    assert epoch.ess == epoch.particles


def test_kl_and_entropy_of_an_iterate_are_eq_2_and_eq_3(moved: tuple) -> None:
    policy, sampled, batch, landscape = moved
    iterate = objective(policy, sampled, batch, landscape)
    paths = Paths.of(batch)
    log_ratio = (policy.log_prob(paths.states, paths.actions) - sampled).detach().numpy()
    ends = np.cumsum(LENGTHS)[:-1]
    products = np.concatenate([np.exp(np.cumsum(part)) for part in np.split(log_ratio, ends)])
    near = landscape.near
    mass = torch.from_numpy((products / products.sum())[near.index].sum(axis=1))
    assert iterate.entropy.item() == pytest.approx(weighted_entropy(mass, near).item(), abs=1e-12)
    assert iterate.kl.item() == pytest.approx(state_kl(mass, near).item(), abs=1e-12)


# --- rules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RULES)
def test_a_rule_keeps_all_that_its_climb_changes(name: str, gridworld_batch: tuple) -> None:
    """A second ascent with the modules and moments of the first goes on as the first does, bit for bit."""
    policy, batch = gridworld_batch
    config = AscentConfig(k=10, learning_rate=1e-4, max_steps=2)
    landscape, twins = search(batch, k=10), []
    for _ in range(2):
        own = copy.deepcopy(policy)
        twins.append(RULES[name].make(own, config, CriticConfig(critic_steps=3), 2, np.random.default_rng(len(twins))))
    first, second = twins
    assert first.modules["policy"] is not second.modules["policy"]
    first.climb(batch, landscape)
    for module in first.modules:
        second.modules[module].load_state_dict(first.modules[module].state_dict())
    for optimiser in first.optimisers:
        second.optimisers[optimiser].load_state_dict(copy.deepcopy(first.optimisers[optimiser].state_dict()))
    assert first.climb(batch, landscape) == second.climb(batch, landscape)
    for module in first.modules:
        found = [ascent.modules[module].state_dict() for ascent in twins]
        assert all(torch.equal(found[0][tensor], found[1][tensor]) for tensor in found[0])


@pytest.mark.parametrize("name", RULES)
def test_rules_are_listed_by_their_names(name: str) -> None:
    assert RULES[name].name == name
    assert with_settings(AscentConfig(), {"rule": name}).rule == name  # and every one can be asked for

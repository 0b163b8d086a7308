"""Each reward against the same number worked out by hand or by brute force."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mepol.errors import CollapseError
from mepol.rewards.icm import Icm
from mepol.rewards.nearest import Apt, Re3, pooled_distances
from mepol.rewards.reward import Transitions
from mepol.rewards.rnd import Rnd
from mepol.rewards.running import RunningMoments


@pytest.fixture(autouse=True)
def seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def reached(states: np.ndarray | list) -> Transitions:
    """Steps that end in (B, S) `states`; where they began is elsewhere, and must not matter."""
    after = torch.tensor(np.asarray(states), dtype=torch.float32)
    return Transitions(after + 100, torch.zeros(len(after), 2), after)


def brute(points: np.ndarray, k: int) -> np.ndarray:
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(gaps, np.inf)
    return np.sort(gaps, axis=1)[:, :k]


# --- running moments ----------------------------------------------------------------------------------------------


def test_running_moments_are_those_of_everything_seen() -> None:
    rng, moments = np.random.default_rng(0), RunningMoments(3)
    assert (moments.mean.tolist(), moments.deviation.tolist()) == ([0.0] * 3, [1.0] * 3)
    parts = [rng.normal([0, 5, -2], [1, 0.1, 30], (n, 3)) + n for n in (1, 7, 500, 2)]
    for part in parts:
        moments.watch(torch.from_numpy(part))
    everything = np.concatenate(parts)
    np.testing.assert_allclose(moments.mean, everything.mean(0), rtol=1e-5)
    np.testing.assert_allclose(moments.deviation, everything.std(0), rtol=1e-5)
    assert int(moments.count) == 510


def test_what_never_varies_has_the_deviation_one() -> None:
    moments = RunningMoments()
    moments.watch(torch.full((9,), 4.0))
    assert (float(moments.mean), float(moments.deviation)) == (4.0, 1.0)


# --- distances ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 2, 64])
def test_distances_are_those_of_brute_force(dim: int) -> None:
    points = np.random.default_rng(dim).normal(size=(200, dim))
    points[5] = points[6] = points[7]  # which meet
    points = np.column_stack([points, np.ones(200)])  # and a coordinate that all share
    np.testing.assert_allclose(pooled_distances(points, 4, 0), brute(points, 4), atol=1e-12)


def test_neighbours_are_sought_in_pools_that_are_drawn_anew() -> None:
    points = np.random.default_rng(0).normal(size=(107, 2))
    torch.manual_seed(3)
    found = pooled_distances(points, 4, 25)
    torch.manual_seed(3)
    for rows in np.array_split(torch.randperm(107).numpy(), 4):  # 26 or 27 in each
        np.testing.assert_allclose(found[rows], brute(points[rows], 4), atol=1e-12)
    assert (pooled_distances(points, 4, 25) != found).any()


def test_few_points_have_what_neighbours_there_are() -> None:
    np.testing.assert_allclose(
        pooled_distances(np.array([[0.0], [1.0], [4.0]]), 3, 0), [[1, 4, 4], [1, 3, 3], [3, 4, 4]]
    )
    assert pooled_distances(np.zeros((1, 2)), 3, 0).tolist() == [[0.0, 0.0, 0.0]]


# --- RE3 and APT ----------------------------------------------------------------------------------------------------

LINE = [[0.0], [1.0], [3.0], [7.0]]


def test_re3_pays_for_the_distance_to_the_kth() -> None:
    found = Re3(1, 0, k=2).reward(reached(LINE))
    np.testing.assert_allclose(found, np.log1p([3, 2, 3, 6]), rtol=1e-6)


def test_apt_pays_for_the_mean_distance_to_the_k_nearest() -> None:
    found = Apt(None, k=2, pool=0, relative=False).reward(reached(LINE))
    np.testing.assert_allclose(found, np.log1p([2, 1.5, 2.5, 5]), rtol=1e-6)


def test_relative_distances_are_in_units_of_their_running_mean() -> None:
    apt = Apt(None, k=2, pool=0)
    first = apt.reward(reached(LINE))  # the mean of 2, 1.5, 2.5 and 5 is 2.75
    np.testing.assert_allclose(first, np.log1p(np.array([2, 1.5, 2.5, 5]) / 2.75), rtol=1e-6)
    second = apt.reward(reached(3 * np.array(LINE)))  # and with 6, 4.5, 7.5 and 15 beside them 5.5
    np.testing.assert_allclose(second, np.log1p(np.array([6, 4.5, 7.5, 15]) / 5.5), rtol=1e-6)


def test_states_that_all_meet_earn_nothing() -> None:
    for reward in (Re3(2, 0), Apt(None, pool=0)):
        assert reward.reward(reached(np.ones((20, 2)))).tolist() == [0.0] * 20


def test_re3_measures_in_the_embedding_of_a_network_that_stays_as_it_is() -> None:
    states = np.random.default_rng(1).normal(size=(60, 3))
    re3 = Re3(3, 16, 8, k=3)
    before = {name: tensor.clone() for name, tensor in re3.state_dict().items()}
    w0, b0, w1, b1 = (before[f"encoder.{name}"].numpy() for name in ("0.weight", "0.bias", "2.weight", "2.bias"))
    embedded = np.maximum(states.astype(np.float32) @ w0.T + b0, 0) @ w1.T + b1
    np.testing.assert_allclose(re3.reward(reached(states)), np.log1p(brute(embedded, 3)[:, -1]), rtol=1e-4)
    re3.update(reached(states))
    assert re3.optimisers() == {}
    assert all(torch.equal(tensor, before[name]) for name, tensor in re3.state_dict().items())


def test_apt_measures_in_the_embedding_that_icm_learns() -> None:
    states = torch.randn(60, 3)
    steps = Transitions(states, torch.rand(60, 2) * 2 - 1, states + 0.1 * torch.randn(60, 3))
    apt, twin = Apt(Icm(3, 2, 16), k=5, pool=0, relative=False), Icm(3, 2, 16)
    twin.load_state_dict(apt.icm.state_dict())
    for _ in range(3):
        apt.update(steps)
        twin.update(steps)
    with torch.no_grad():
        embedded = twin.embedding(steps.next_obs).double().numpy()
    np.testing.assert_allclose(apt.reward(steps), np.log1p(brute(embedded, 5).mean(1)), rtol=1e-5)


def test_an_embedding_that_broke_is_named() -> None:
    apt = Apt(Icm(2, 2, 4))
    torch.nn.init.constant_(apt.icm.embedding[0].bias, float("nan"))
    with pytest.raises(CollapseError, match="lower reward_rate"):
        apt.reward(reached(np.zeros((5, 2))))


# --- RND ------------------------------------------------------------------------------------------------------------


def test_rnd_pays_the_squared_error_of_the_predictor_at_clipped_inputs() -> None:
    states = np.random.default_rng(2).normal([3, -1], [2, 0.1], (50, 2)).astype(np.float32)
    states[0] = 3000.0, -1.0  # so far off that it is cut to five deviations
    rnd = Rnd(2, width=8, outputs=4)
    x = np.clip((states - states.mean(0)) / states.std(0), -5, 5)
    assert x.max() == 5.0

    def network(name: str, layers: int) -> np.ndarray:
        out = x
        for i in range(layers):
            weight, bias = (rnd.state_dict()[f"{name}.{2 * i}.{part}"].numpy() for part in ("weight", "bias"))
            out = out @ weight.T + bias
            out = np.maximum(out, 0) if i < layers - 1 else out
        return out

    truth = np.square(network("predictor", 4) - network("target", 3)).mean(1)
    np.testing.assert_allclose(rnd.reward(reached(states)), truth, rtol=1e-3)


def test_the_error_of_rnd_falls_where_it_has_been_and_stays_high_elsewhere() -> None:
    rng = np.random.default_rng(0)
    rnd = Rnd(2, width=32, outputs=16, rate=1e-3)
    here, there = rng.normal(0, 1, (200, 2)), rng.normal([4, 4], 0.2, (200, 2))
    everywhere = reached(np.concatenate([here, there]))
    start = rnd.reward(everywhere)
    target = {name: tensor.clone() for name, tensor in rnd.target.state_dict().items()}
    for _ in range(150):
        rnd.update(reached(here))
    end = rnd.reward(everywhere)
    assert end[:200].mean() < 0.1 * start[:200].mean()
    assert end[200:].mean() > 10 * end[:200].mean()
    assert all(torch.equal(tensor, target[name]) for name, tensor in rnd.target.state_dict().items())

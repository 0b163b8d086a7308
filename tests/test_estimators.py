"""Eq. 1-3 against closed forms, against themselves, and against the paper's formulas written out in loops."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import digamma

from mepol import knn_entropy, knn_kl, weighted_knn_entropy
from mepol.errors import CoincidentParticlesError, MepolError, ParticleError
from mepol.estimators import effective_sample_size, entropy, neighbour_mass, state_kl, weighted_entropy
from mepol.neighbours import neighbours, places

N = 20_000
DIMS, KS = (1, 2, 3), (1, 4, 50)
TOLERANCE = 0.05  # nats


def gaussian_entropy(dim: int, std: float = 1.0) -> float:
    return dim * (0.5 * math.log(2 * math.pi * math.e) + math.log(std))


# --- closed forms -------------------------------------------------------------------------------------------------


def edge_term(x: np.ndarray, k: int, seed: int) -> float:
    """Mean of -ln of the share of each k-neighbour ball that lies inside the unit cube.

    The estimator takes the density to be constant over each ball. The cube ends inside the balls near its faces,
    so the exact expectation of Eq. 1 is the entropy plus this term: a property of the estimator, not of its code.
    """
    rng = np.random.default_rng(seed)
    dim = x.shape[1]
    near = neighbours(x, k)
    some = rng.choice(len(x), 4000, replace=False)
    radius = np.linalg.norm(x[some] - x[near.index[some, -1]], axis=1)
    direction = rng.standard_normal((500, dim))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    in_ball = direction * rng.uniform(size=(500, 1)) ** (1 / dim)
    inside = np.all(np.abs(x[some][:, None] + radius[:, None, None] * in_ball - 0.5) <= 0.5, axis=2)
    return float(-np.log(inside.mean(axis=1)).mean())


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("k", KS)
def test_entropy_of_a_uniform_cube_is_the_log_of_its_volume(dim: int, k: int) -> None:
    x = np.random.default_rng(dim).uniform(size=(N, dim))
    edges = edge_term(x, k, seed=0)
    assert knn_entropy(x, k) - edges == pytest.approx(0.0, abs=TOLERANCE)
    assert edges < {1: 0.005, 2: 0.04, 3: 0.14}[dim]  # so that the raw estimate meets 0.05 but for D = 3 and k > 1
    assert knn_entropy(3.0 * x, k) - edges == pytest.approx(dim * math.log(3.0), abs=TOLERANCE)


@pytest.mark.parametrize(("dim", "k"), [(1, 1), (1, 4), (1, 50), (2, 1), (2, 4), (2, 50), (3, 1)])
def test_raw_entropy_of_a_uniform_cube_where_its_edges_weigh_little(dim: int, k: int) -> None:
    x = np.random.default_rng(10 + dim).uniform(size=(N, dim))
    assert knn_entropy(x, k) == pytest.approx(0.0, abs=TOLERANCE)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("k", KS)
def test_entropy_of_a_gaussian(dim: int, k: int) -> None:
    # Four draws: at D = 3, k = 50 the estimator's smoothing bias is about -0.04, and one draw has noise of 0.01.
    estimates = [knn_entropy(2.0 * np.random.default_rng(seed).standard_normal((N, dim)) + 5.0, k) for seed in range(4)]
    assert np.mean(estimates) == pytest.approx(gaussian_entropy(dim, 2.0), abs=TOLERANCE)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("k", KS)
def test_entropy_of_a_mixture(dim: int, k: int) -> None:
    def density(x: float) -> float:
        return 0.3 * stats.norm.pdf(x, -1.5, 0.8) + 0.7 * stats.norm.pdf(x, 1.0, 1.2)

    along, _ = integrate.quad(lambda x: -density(x) * math.log(density(x)), -9.0, 11.0, limit=200)
    truth = along + gaussian_entropy(dim - 1)
    estimates = []
    for seed in range(4):  # as for the Gaussian
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((N, dim))
        x[:, 0] = np.where(rng.uniform(size=N) < 0.3, 0.8 * x[:, 0] - 1.5, 1.2 * x[:, 0] + 1.0)
        estimates.append(knn_entropy(x, k))
    assert np.mean(estimates) == pytest.approx(truth, abs=TOLERANCE)


@pytest.mark.parametrize("k", [4, 50])
@pytest.mark.parametrize("dim", [1, 2])
def test_weighted_entropy_and_kl_of_two_gaussians(dim: int, k: int) -> None:
    shift, std = 0.5, 0.8  # f = N(0, 1), f' = N(shift, std^2) in each dimension
    x = np.random.default_rng(dim).standard_normal((N, dim))
    weights = np.exp((stats.norm.logpdf(x, shift, std) - stats.norm.logpdf(x)).sum(axis=1))
    kl = dim * (math.log(std) + (1 + shift**2) / (2 * std**2) - 0.5)
    assert weighted_knn_entropy(x, weights, k) == pytest.approx(gaussian_entropy(dim, std), abs=TOLERANCE)
    # A mean over k weights is a biased input to a logarithm when k is small: E ln(mean) < ln E.
    assert knn_kl(x, weights, k) == pytest.approx(kl, abs=TOLERANCE)
    assert kl > 4 * TOLERANCE  # so that the comparison could fail


# --- identities ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("scale", [1.0, 1e-3, 7.0])
def test_equal_weights_give_eq_1_and_no_kl(k: int, scale: float) -> None:
    x = np.random.default_rng(3).standard_normal((3000, 2))
    weights = np.full(3000, scale)
    assert weighted_knn_entropy(x, weights, k) == pytest.approx(knn_entropy(x, k), abs=1e-6)
    assert knn_kl(x, weights, k) == pytest.approx(0.0, abs=1e-6)


def test_weights_need_no_normalisation() -> None:
    rng = np.random.default_rng(0)
    x, weights = rng.standard_normal((500, 2)), rng.exponential(size=500)
    assert weighted_knn_entropy(x, 1e6 * weights, 5) == pytest.approx(weighted_knn_entropy(x, weights, 5), abs=1e-9)
    assert knn_kl(x, 1e-6 * weights, 5) == pytest.approx(knn_kl(x, weights, 5), abs=1e-9)


def as_printed(x: np.ndarray, weights: np.ndarray, k: int) -> tuple[float, float, float]:
    """Eq. 1, 2 and 3 with the paper's own symbols, one particle after another."""
    n, p = x.shape
    w = [wj / sum(weights) for wj in weights]
    h1 = h2 = kl = 0.0
    for i in range(n):
        distance = [(math.dist(x[i], x[j]), j) for j in range(n) if j != i]
        nearest = sorted(distance)[:k]
        radius = nearest[-1][0]
        volume = radius**p * math.pi ** (p / 2) / math.gamma(p / 2 + 1)
        mass = sum(w[j] for _, j in nearest)
        h1 += -math.log(k / (n * volume)) / n
        h2 += -mass / k * math.log(mass / volume) if mass > 0 else 0.0
        kl += math.log((k / n) / mass) / n if mass > 0 else math.inf
    bias = math.log(k) - float(digamma(k))
    return h1 + bias, h2 + bias, kl


@given(n=st.integers(3, 25), dim=st.integers(1, 4), k=st.integers(1, 10), seed=st.integers(0, 10_000))
def test_the_equations_as_printed(n: int, dim: int, k: int, seed: int) -> None:
    k = min(k, n - 1)
    rng = np.random.default_rng(seed)
    x, weights = rng.standard_normal((n, dim)), rng.exponential(size=n)
    h1, h2, kl = as_printed(x, weights, k)
    assert knn_entropy(x, k) == pytest.approx(h1, abs=1e-9)
    assert weighted_knn_entropy(x, weights, k) == pytest.approx(h2, abs=1e-9)
    assert knn_kl(x, weights, k) == pytest.approx(kl, abs=1e-9)


def test_particles_without_weight_add_nothing_and_an_empty_neighbourhood_makes_kl_infinite() -> None:
    x = np.array([[0.0], [1.0], [2.0], [10.0], [11.5], [13.5]])
    weights = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    assert weighted_knn_entropy(x, weights, 1) == pytest.approx(as_printed(x, weights, 1)[1], abs=1e-12)
    assert knn_kl(x, weights, 1) == math.inf


def test_the_torch_forms_are_differentiable_in_the_weights() -> None:
    rng = np.random.default_rng(1)
    near = neighbours(rng.standard_normal((40, 2)), 3)
    logits = torch.from_numpy(rng.standard_normal(40)).requires_grad_()

    def objectives(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mass = neighbour_mass(torch.softmax(z, 0), near)
        return weighted_entropy(mass, near), state_kl(mass, near)

    assert torch.autograd.gradcheck(objectives, (logits,), eps=1e-6, atol=1e-7)


def test_effective_sample_size() -> None:
    assert effective_sample_size(torch.full((50,), 1 / 50)).item() == pytest.approx(50)
    assert effective_sample_size(torch.tensor([0.0, 1.0, 0.0])).item() == pytest.approx(1)
    assert effective_sample_size(torch.tensor([0.5, 0.25, 0.25])).item() == pytest.approx(1 / 0.375)


def test_the_number_of_threads_changes_no_digit() -> None:
    """Above 32,768 elements torch splits a sum among its threads, and rounds each split differently."""
    n = 50_000
    near = neighbours(np.random.default_rng(0).standard_normal((n, 1)), 4)
    weights = torch.softmax(torch.from_numpy(np.random.default_rng(1).standard_normal(n)), 0)
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        mass = neighbour_mass(weights, near)
        results.append([f(mass, near).item() for f in (weighted_entropy, state_kl)])
        results[-1].append(effective_sample_size(weights).item())
    torch.set_num_threads(1)
    assert results[0] == results[1] == results[2]


# --- invariances --------------------------------------------------------------------------------------------------

clouds = st.builds(
    lambda seed, n, dim: np.random.default_rng(seed).standard_normal((n, dim)),
    st.integers(0, 10_000),
    st.integers(8, 80),
    st.integers(1, 6),
)


@given(x=clouds, k=st.integers(1, 7), shift=st.floats(-100, 100))
def test_translation_changes_nothing(x: np.ndarray, k: int, shift: float) -> None:
    assert knn_entropy(x + shift, k) == pytest.approx(knn_entropy(x, k), abs=1e-6)


@given(x=clouds, k=st.integers(1, 7), seed=st.integers(0, 1000))
def test_rotation_changes_nothing(x: np.ndarray, k: int, seed: int) -> None:
    rotation, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((x.shape[1], x.shape[1])))
    weights = np.random.default_rng(seed).exponential(size=len(x))
    assert knn_entropy(x @ rotation, k) == pytest.approx(knn_entropy(x, k), abs=1e-8)
    assert knn_kl(x @ rotation, weights, k) == pytest.approx(knn_kl(x, weights, k), abs=1e-8)


@given(x=clouds, k=st.integers(1, 7), log_c=st.floats(-20, 20))
def test_scaling_adds_d_ln_c(x: np.ndarray, k: int, log_c: float) -> None:
    weights = np.random.default_rng(0).exponential(size=len(x))
    c, dim = math.exp(log_c), x.shape[1]
    assert knn_entropy(c * x, k) == pytest.approx(knn_entropy(x, k) + dim * log_c, abs=1e-8)
    # Eq. 2 adds sum(W) / k times it, which is 1 only on average: the printed formula, kept as it is.
    share = float(neighbour_mass(torch.from_numpy(weights / weights.sum()), neighbours(x, k)).sum()) / k
    scaled = weighted_knn_entropy(x, weights, k) + share * dim * log_c
    assert weighted_knn_entropy(c * x, weights, k) == pytest.approx(scaled, abs=1e-8)
    assert knn_kl(c * x, weights, k) == pytest.approx(knn_kl(x, weights, k), abs=1e-8)


@given(x=clouds, k=st.integers(1, 7), seed=st.integers(0, 1000))
def test_order_changes_nothing(x: np.ndarray, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    order, weights = rng.permutation(len(x)), rng.exponential(size=len(x))
    assert knn_entropy(x[order], k) == pytest.approx(knn_entropy(x, k), abs=1e-9)
    assert weighted_knn_entropy(x[order], weights[order], k) == pytest.approx(
        weighted_knn_entropy(x, weights, k), abs=1e-9
    )
    assert knn_kl(x[order], weights[order], k) == pytest.approx(knn_kl(x, weights, k), abs=1e-9)


# --- many dimensions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_two_hundred_dimensions_do_not_overflow(scale: float) -> None:
    n, dim, k = 25, 200, 4
    x = scale * np.random.default_rng(0).standard_normal((n, dim))
    mpmath.mp.dps = 40
    ball = mpmath.pi ** (dim / 2) / mpmath.gamma(mpmath.mpf(dim) / 2 + 1)
    total = mpmath.mpf(0)
    for i in range(n):
        gaps = sorted(mpmath.sqrt(sum(mpmath.mpf(g) ** 2 for g in x[i] - x[j])) for j in range(n) if j != i)
        total -= mpmath.log(k / (n * gaps[k - 1] ** dim * ball)) / n
    truth = total + mpmath.log(k) - mpmath.digamma(k)
    assert knn_entropy(x, k) == pytest.approx(float(truth), rel=1e-10)


# --- bad input ----------------------------------------------------------------------------------------------------

GOOD = np.random.default_rng(0).standard_normal((10, 2))


@pytest.mark.parametrize("k", [0, -3, 10, 11])
@pytest.mark.parametrize("estimate", [knn_entropy, lambda x, k: knn_kl(x, np.ones(len(x)), k)])
def test_k_outside_its_range_is_refused(k: int, estimate: object) -> None:
    with pytest.raises(ParticleError, match=rf"k = {k} is not in \[1, N - 1\] for N = 10 particles"):
        estimate(GOOD, k)  # type: ignore[operator]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_particles_that_are_not_numbers_are_counted(bad: float) -> None:
    x = GOOD.copy()
    x[3, 1] = x[7, 0] = bad
    with pytest.raises(ParticleError, match="2 of 10 particles are NaN or infinite, the first is particle 3"):
        knn_entropy(x, 2)


@pytest.mark.parametrize("shape", [(10,), (10, 0), (2, 5, 2), ()])
def test_particles_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ParticleError, match=r"shape \(N, D\)"):
        knn_entropy(np.zeros(shape), 2)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(9), r"shape \(10,\), one a particle, not \(9,\)"),
        (np.ones((10, 1)), r"not \(10, 1\)"),
        (np.zeros(10), "not all zero"),
        (-np.ones(10), "not negative"),
        (np.r_[np.ones(9), -0.1], "not negative"),
        (np.r_[np.ones(9), np.nan], "finite"),
        (np.r_[np.ones(9), np.inf], "finite"),
    ],
)
def test_impossible_weights_are_refused(weights: np.ndarray, message: str) -> None:
    with pytest.raises(ParticleError, match=message):
        weighted_knn_entropy(GOOD, weights, 2)
    with pytest.raises(ParticleError, match=message):
        knn_kl(GOOD, weights, 2)


def test_a_constant_feature_is_named() -> None:
    x = np.c_[GOOD, np.full(10, 0.25)]
    with pytest.raises(ParticleError, match=r"feature 2 is 0\.25 in all 10 particles.*leave it out"):
        knn_entropy(x, 2)


def test_all_constant_features_are_told_at_once_and_by_name() -> None:
    x = np.c_[np.full(10, -1.5), GOOD, np.full(10, 0.25)]
    with pytest.raises(ParticleError, match=r"feature 0 is -1\.5, feature 3 is 0\.25 in all 10 .*leave them out"):
        knn_entropy(x, 2)
    with pytest.raises(ParticleError, match=r"feature torso is -1\.5, feature foot is 0\.25 in all 10"):
        neighbours(x, 2, names=("torso", "x", "y", "foot"))
    with pytest.raises(ParticleError, match="4 features need as many names, not 2"):
        neighbours(x, 2, names=("torso", "foot"))


@pytest.mark.parametrize("dim", [2, 6, 101])
@pytest.mark.parametrize("log2", [-1060, -1000, -664, 664, 1015])  # 2^664 is about 1e200
def test_sizes_whose_squares_no_number_holds(dim: int, log2: int) -> None:
    """A power of two changes no digit of the particles, so the entropy is the plain one plus D ln scale."""
    x = np.random.default_rng(dim).integers(-(2**13), 2**13, (300, dim)) * 2.0**-8  # digits left for 2^-1060
    weights = np.random.default_rng(0).exponential(size=300)
    huge, shift = np.ldexp(x, log2), dim * log2 * math.log(2.0)
    assert np.array_equal(np.ldexp(huge, -log2), x)
    assert knn_entropy(huge, 4) == pytest.approx(knn_entropy(x, 4) + shift, rel=1e-13)
    assert knn_kl(huge, weights, 4) == knn_kl(x, weights, 4)
    np.testing.assert_array_equal(neighbours(huge, 4).index, neighbours(x, 4).index)


def test_a_distance_too_small_beside_the_largest_coordinate_is_told_from_a_coincidence() -> None:
    x = np.r_[1e-200 * GOOD, [[1.0, 1.0]]]
    with pytest.raises(ParticleError, match=r"within \S+e-20\d of its k=2 .*reach 1: .*similar sizes") as found:
        knn_entropy(x, 2)
    assert not isinstance(found.value, CoincidentParticlesError)


def test_coincident_particles_are_counted_and_the_remedy_named() -> None:
    x = np.r_[GOOD, np.zeros((4, 2))]  # each of the four has three others on top of it
    with pytest.raises(CoincidentParticlesError, match=r"4 of 14 particles coincide with their k=3 .*raise k.*eps"):
        knn_entropy(x, 3)
    with pytest.raises(CoincidentParticlesError, match="4 of 14"):
        weighted_knn_entropy(x, np.ones(14), 3)
    assert math.isfinite(knn_entropy(x, 4))
    assert knn_kl(x, np.ones(14), 3) == pytest.approx(0.0, abs=1e-12)  # Eq. 3 has no volume


def test_eps_adds_its_volume_to_each_ball() -> None:
    x = np.r_[GOOD, np.zeros((4, 2))]
    eps, k = 1e-3, 3
    radius = np.sort(np.linalg.norm(x[:, None] - x[None], axis=2), axis=1)[:, k]
    truth = np.log(np.pi * radius**2 + eps).mean() - math.log(k / 14) + math.log(k) - digamma(k)
    assert knn_entropy(x, k, eps=eps) == pytest.approx(truth, abs=1e-12)
    assert weighted_knn_entropy(x, np.ones(14), k, eps=eps) == pytest.approx(truth, abs=1e-12)


def test_every_refusal_is_a_mepol_error() -> None:
    assert issubclass(ParticleError, MepolError)
    assert issubclass(CoincidentParticlesError, ParticleError)


def test_lists_and_integers_are_particles_too() -> None:
    assert knn_entropy([[0, 0], [1, 0], [0, 2], [3, 3]], 1) == pytest.approx(
        entropy(neighbours(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 3.0]]), 1))
    )


# --- finitely many states -----------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=60),
    st.integers(1, 80),
    st.integers(0, 2**32 - 1),
)
def test_of_places_the_estimates_are_the_plug_in_ones_whatever_k(states: list[int], k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=len(states))
    weights /= weights.sum()
    near = places(np.eye(7)[states], k)
    share = np.bincount(states, minlength=7) / len(states)
    mass = np.bincount(states, weights, minlength=7)
    seen = share > 0
    assert entropy(near) == pytest.approx(-(share[seen] * np.log(share[seen])).sum(), abs=1e-12)
    w = torch.from_numpy(weights).requires_grad_()
    found = weighted_entropy(neighbour_mass(w, near), near)
    assert found.item() == pytest.approx(-(mass[seen] * np.log(mass[seen])).sum(), abs=1e-12)
    kl = state_kl(neighbour_mass(w, near), near)
    assert kl.item() == pytest.approx((share[seen] * np.log(share[seen] / mass[seen])).sum(), abs=1e-12)
    (gradient,) = torch.autograd.grad(found, w)  # d/dw_i of -sum P ln P is -ln P_i - 1, up to the constant bias
    truth = -np.log(mass[states]) - 1.0 + (digamma(k) - math.log(k)) + (math.log(k) - digamma(k))
    np.testing.assert_allclose(gradient.numpy() - gradient.numpy().mean(), truth - truth.mean(), atol=1e-9)


def test_places_are_of_equal_rows_and_the_rest_is_told() -> None:
    near = places([[0.0, 1.0], [-0.0, 1.0], [0.0, 2.0]], 4)
    assert near.place.tolist() == [0, 0, 1]
    assert (near.n, near.k, near.coinciding, near.count.tolist()) == (3, 4, 0, [2, 1])
    for bad, message in (([[math.nan]], "particle 0"), ([], "shape"), ([[1.0]], "k = 0")):
        with pytest.raises(ParticleError, match=message):
            places(bad, 0 if message == "k = 0" else 2)

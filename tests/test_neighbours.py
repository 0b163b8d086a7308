"""Exact neighbours: the same as scikit-learn's brute force, self excluded, in memory linear in N·k."""

from __future__ import annotations

import importlib
import os
import sys
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import KDTree
from sklearn.neighbors import NearestNeighbors

from mepol import neighbours as module
from mepol.errors import ParticleError
from mepol.neighbours import Neighbours, log_unit_ball, neighbours, pool
from mepol.neighbours.brute import BLOCK_BYTES
from mepol.neighbours.threads import workers as workers_of_torch

Search = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]


def by_tree(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k-d tree, whatever it costs here."""
    return module._search_tree(KDTree(x, leafsize=module.LEAF, balanced_tree=False), k, workers=1)


BACKENDS = (by_tree, module._search_all)


def true_distances(x: np.ndarray, k: int) -> np.ndarray:
    """(N, K) distances to the k nearest others, by scikit-learn's brute force."""
    distance, _ = NearestNeighbors(n_neighbors=k, algorithm="brute", metric="l2").fit(x).kneighbors()
    return np.asarray(distance)


def check(x: np.ndarray, k: int, search: Search, truth: np.ndarray | None = None) -> None:
    """The found indices are valid, not one's own, distinct, and as near as the truth says."""
    n = len(x)
    index, distance = search(x, k)
    assert index.shape == (n, k)
    assert index.min() >= 0
    assert index.max() < n
    assert not (index == np.arange(n)[:, None]).any()
    assert all(len(set(row)) == k for row in index.tolist())
    found = np.linalg.norm(x[:, None] - x[index], axis=2)  # (N, K)
    truth = np.sort(np.linalg.norm(x[:, None] - x[None], axis=2), axis=1)[:, 1 : k + 1] if truth is None else truth
    size = np.abs(truth).max() or 1.0
    np.testing.assert_allclose(found, truth, rtol=1e-9, atol=1e-12 * size)
    np.testing.assert_allclose(distance, truth, rtol=1e-9, atol=1e-12 * size)
    assert (np.diff(found, axis=1) >= -1e-12 * size).all()  # nearest first


@pytest.mark.parametrize("search", BACKENDS)
@pytest.mark.parametrize("dim", [1, 2, 3, 5, 8, 13, 20, 30, 39, 40, 41, 50])
def test_neighbours_are_those_of_brute_force(search: Search, dim: int) -> None:
    x = np.random.default_rng(dim).standard_normal((400, dim))
    for k in (1, 4, 50):
        check(x, k, search)
        # scikit-learn's brute force uses the product form, whose rounding is about 1e-7 of the distances here
        np.testing.assert_allclose(search(x, k)[1], true_distances(x, k), rtol=1e-6)


@pytest.mark.parametrize("dim", [1, 2, 5, 6, 24, 50, 100, 101, 200])
def test_the_chosen_backend_agrees_with_brute_force(dim: int) -> None:
    x = np.random.default_rng(dim).standard_normal((150, dim))
    near = neighbours(x, 4)
    radius = np.exp((near.log_volume - log_unit_ball(dim)) / dim)
    np.testing.assert_allclose(radius, true_distances(x, 4)[:, -1], rtol=1e-6)
    assert (near.n, near.k) == (150, 4)


def test_the_share_of_touched_leaves_is_small_on_trajectories_and_all_in_high_dimensional_noise() -> None:
    rng = np.random.default_rng(0)
    walks = 0.1 * np.cumsum(rng.standard_normal((20, 100, 24)), axis=1)
    apart = (rng.uniform(-6, 6, (20, 1, 24)) + walks).reshape(-1, 24)
    noise = rng.standard_normal((2000, 24))
    assert module.touched_share(KDTree(apart), 4) < 0.1
    assert module.touched_share(KDTree(noise), 4) > 0.9


def test_the_share_of_touched_leaves_of_a_hand_made_line() -> None:
    """16 leaves of 16 particles on a line: the ball to the nearest neighbour reaches no other leaf, or one."""
    line = np.arange(256.0)[:, None] + np.arange(256.0)[:, None] // 16 * 1000
    assert module.touched_share(KDTree(line, leafsize=16), 1, queries=256) == 1 / 16


@pytest.mark.parametrize("search", BACKENDS)
@given(
    dim=st.integers(1, 5), side=st.integers(1, 4), n=st.integers(2, 60), k=st.integers(1, 12), seed=st.integers(0, 999)
)
def test_ties_and_duplicates_on_integer_lattices(
    search: Search, dim: int, side: int, n: int, k: int, seed: int
) -> None:
    x = np.random.default_rng(seed).integers(0, side + 1, (n, dim)).astype(float)
    check(x, min(k, n - 1), search)


@pytest.mark.parametrize("search", BACKENDS)
def test_a_whole_lattice(search: Search) -> None:
    x = np.stack(np.meshgrid(*[np.arange(12.0)] * 2), axis=-1).reshape(-1, 2)
    for k in (1, 4, 8, 50):
        check(x, k, search)


@pytest.mark.parametrize("search", BACKENDS)
def test_many_duplicates_never_make_a_particle_its_own_neighbour(search: Search) -> None:
    rng = np.random.default_rng(0)
    x = np.r_[np.zeros((300, 2)), np.ones((40, 2)), rng.standard_normal((60, 2))]
    for k in (1, 4, 39, 50):
        check(x, k, search)


@pytest.mark.parametrize("search", BACKENDS)
def test_tight_clusters_far_apart(search: Search) -> None:
    """The product form |x|^2 - 2xy + |y|^2 loses every digit of the distances here; the answer must not."""
    rng = np.random.default_rng(0)
    centres = 1e5 * rng.standard_normal((3, 50))
    x = np.repeat(centres, 60, axis=0) + 1e-3 * rng.standard_normal((180, 50))
    check(x, 4, search)


@pytest.mark.parametrize("search", BACKENDS)
@given(offset=st.floats(-1e4, 1e4), seed=st.integers(0, 999))
def test_an_offset_costs_nothing(search: Search, offset: float, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((40, 6)) + offset
    check(x, 3, search)


@pytest.mark.parametrize("dim", [2, 10, 50])
def test_the_number_of_workers_changes_nothing(dim: int) -> None:
    x = np.random.default_rng(0).standard_normal((2000, dim))
    x[:200] = x[200:400]  # ties as well
    one = neighbours(x, 7, workers=1)
    for workers in (2, 3, -1):
        other = neighbours(x, 7, workers=workers)
        np.testing.assert_array_equal(one.index, other.index)
        np.testing.assert_array_equal(one.log_volume, other.log_volume)


@pytest.mark.parametrize("dim", [1, 6, 40, 200])
@pytest.mark.parametrize("k", [1, 4, 30, 299])
def test_both_searches_find_the_same_to_the_last_digit(dim: int, k: int) -> None:
    x = np.random.default_rng(dim).standard_normal((300, dim))
    by_products, by_leaves = module._search_all(x, k), by_tree(x, k)
    np.testing.assert_array_equal(by_products[0], by_leaves[0])
    np.testing.assert_allclose(by_products[1], by_leaves[1], rtol=1e-14)


def test_no_search_needs_more_than_a_plain_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)  # type: ignore[arg-type]  # as if it were not installed
    with pytest.raises(ImportError):
        importlib.import_module("sklearn.neighbors")
    assert neighbours(np.random.default_rng(0).standard_normal((50, 101)), 4).n == 50


def test_of_two_at_one_distance_the_lower_number_is_the_neighbour() -> None:
    line = np.arange(40.0)[:, None] * np.ones((1, 101))  # above 100 features: by products
    near = neighbours(np.c_[line, np.arange(40) % 2], 1)
    assert near.index[:, 0].tolist() == [1, *range(39)]


def test_the_number_of_threads_is_left_as_it_was_and_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((3000, 101))
    asked: list[int] = []

    def counted(threads: int) -> ThreadPoolExecutor:
        asked.append(threads)
        return workers_of_torch(threads)

    monkeypatch.setattr(pool, "workers", counted)
    before = torch.get_num_threads()
    for workers in (1, 3, -1):
        neighbours(x, 4, workers=workers)
    assert asked == [1, 3, os.cpu_count()]
    assert torch.get_num_threads() == before


def test_adjacency_marks_each_row_of_the_index() -> None:
    near = neighbours(np.random.default_rng(0).standard_normal((30, 2)), 5)
    dense = near.adjacency.toarray()
    for i, row in enumerate(near.index):
        expected = np.zeros(30)
        expected[row] = 1.0
        np.testing.assert_array_equal(dense[i], expected)


@pytest.mark.parametrize(
    ("dim", "volume"),
    [(1, 2.0), (2, np.pi), (3, 4 * np.pi / 3), (4, np.pi**2 / 2), (5, 8 * np.pi**2 / 15)],
)
def test_volumes_of_unit_balls(dim: int, volume: float) -> None:
    assert np.exp(log_unit_ball(dim)) == pytest.approx(volume, rel=1e-12)


def test_log_volume_of_two_hand_made_balls() -> None:
    near = neighbours([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]], 1)
    np.testing.assert_array_equal(near.index[:, 0], [1, 2, 1])
    np.testing.assert_allclose(near.log_volume, np.log(np.pi * np.array([25.0, 1.0, 1.0])))


def peak_bytes(x: np.ndarray, k: int) -> tuple[int, Neighbours]:
    tracemalloc.start()
    try:
        near = neighbours(x, k)
        _ = near.adjacency
        return tracemalloc.get_traced_memory()[1], near
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("n", "dim", "k"), [(24_000, 2, 50), (50_000, 24, 4)])
def test_memory_is_linear_in_n_times_k(n: int, dim: int, k: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 2)) @ rng.standard_normal((2, dim))  # a plane: quick for a tree in any dimension
    x += 1e-6 * rng.standard_normal(x.shape)
    peak, near = peak_bytes(x, k)
    assert near.index.shape == (n, k)
    # index, distances and their copies, the sparse matrix, the points: about a dozen arrays of N (k + 1 + D) numbers
    assert peak < 12 * 8 * n * (k + 1 + dim)
    assert peak < 8 * n * n / 20


def test_brute_force_keeps_no_matrix_of_all_distances() -> None:
    n, k = 12_000, 4
    x = np.random.default_rng(0).standard_normal((n, 50))
    peak, _ = peak_bytes(x, k)
    # a few blocks at once beside the linear part (torch's products are not traced)
    assert peak < 8 * BLOCK_BYTES + 12 * 8 * n * (k + 1 + 50) < 8 * n * n / 4


def test_a_particle_more_than_memory_allows_is_not_asked_of_k() -> None:
    with pytest.raises(ParticleError, match="k = 1"):
        neighbours(np.zeros((1, 2)), 1)


def test_a_floor_holds_coinciding_particles_apart_and_counts_them() -> None:
    x = np.concatenate([np.zeros((5, 2)), np.random.default_rng(0).uniform(1, 2, (50, 2))])
    near, plain = neighbours(x, 3, floor=0.01), neighbours(x, 3, eps=1e-300)
    assert near.coinciding == 5
    least = np.log(np.pi * 0.01**2)
    assert np.allclose(near.log_volume[:5], least)
    assert np.array_equal(near.log_volume[5:], plain.log_volume[5:])  # none of these is so near
    assert plain.log_volume[5:].min() > least


def test_with_a_floor_a_coordinate_may_stand_still() -> None:
    x = np.column_stack([np.random.default_rng(0).uniform(size=30), np.ones(30)])
    with pytest.raises(ParticleError, match="feature 1 is 1"):
        neighbours(x, 2)
    assert np.isfinite(neighbours(x, 2, floor=1e-6).log_volume).all()

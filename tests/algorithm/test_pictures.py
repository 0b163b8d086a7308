"""Pictures as rows, the convolutions of a policy against plain loops, and its likelihood against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mepol.algorithm import CategoricalPolicy, GaussianPolicy
from mepol.algorithm.pictures import MAX_SIDE, Eye, Picture
from mepol.errors import EnvironmentFault

SMALL = Picture(7, 6, 2)


def some_pictures(picture: Picture, n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, *picture.source), dtype=np.uint8)


def slow_convolution(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: tuple[int, int]) -> np.ndarray:
    """(C, h, w) -> (O, h', w'), by loops, then max(0, .)."""
    out, _, kh, kw = weight.shape
    h, w = (x.shape[1] - kh) // stride[0] + 1, (x.shape[2] - kw) // stride[1] + 1
    y = np.zeros((out, h, w))
    for o in range(out):
        for i in range(h):
            for j in range(w):
                top, left = i * stride[0], j * stride[1]
                y[o, i, j] = (weight[o] * x[:, top : top + kh, left : left + kw]).sum() + bias[o]
    return np.maximum(y, 0)


def made(kind: str, picture: Picture = SMALL, hidden: tuple[int, ...] = (5,)) -> GaussianPolicy | CategoricalPolicy:
    if kind == "gaussian":
        policy: GaussianPolicy | CategoricalPolicy = GaussianPolicy(picture.size, 2, hidden, picture=picture)
    else:
        policy = CategoricalPolicy(picture.size, (3, 2), hidden, picture)
    policy.draw_weights(np.random.default_rng(1))
    return policy


def test_small_pictures_are_rows_as_they_are() -> None:
    pictures = some_pictures(SMALL, 3)
    np.testing.assert_array_equal(SMALL.rows(pictures), pictures.reshape(3, -1))
    np.testing.assert_array_equal(SMALL.rows(pictures[0]), pictures[0].ravel())
    np.testing.assert_array_equal(SMALL.rows(SMALL.rows(pictures)), pictures.reshape(3, -1))
    gray = Picture(7, 6, 1)
    np.testing.assert_array_equal(gray.rows(pictures[..., 0]), pictures[..., 0].reshape(3, -1))


@pytest.mark.parametrize("source", [(96, 96, 3), (210, 160, 1), (33, 7, 2)])
def test_large_pictures_are_means_over_squares(source: tuple[int, int, int]) -> None:
    picture = Picture(*source)
    assert max(picture.shape[:2]) <= MAX_SIDE
    pictures, f = some_pictures(picture, 2), picture.factor
    found = picture.rows(pictures).reshape(2, *picture.shape)
    for i, j, c in [(0, 0, 0), (3, 1, 0), tuple(side - 1 for side in picture.shape)]:
        rows = np.minimum(np.arange(i * f, (i + 1) * f), source[0] - 1)  # the edge counts again where a square is cut
        columns = np.minimum(np.arange(j * f, (j + 1) * f), source[1] - 1)
        truth = pictures[:, rows][:, :, columns][..., c].mean(axis=(1, 2))
        assert np.abs(found[:, i, j, c] - truth).max() <= 0.5


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            np.zeros((6, 7, 2), np.uint8),
            r"pictures \(7, 6, 2\) are read here, or rows of 84 bytes, not an array \(6, 7",
        ),
        (np.zeros((4, 83), np.uint8), r"not an array \(4, 83\)"),
        (np.zeros((7, 6, 2)), r"read as bytes \(uint8\), not as float64"),
    ],
)
def test_other_pictures_are_named_in_one_sentence(given: np.ndarray, words: str) -> None:
    with pytest.raises(EnvironmentFault, match=words):
        made("gaussian").act(given, np.random.default_rng(0))


def test_impossible_pictures_are_refused() -> None:
    for source in ((0, 5, 3), (5, 5, 84), (5000, 5, 1)):
        with pytest.raises(EnvironmentFault, match="is not possible"):
            Picture(*source)


@pytest.mark.parametrize("source", [(7, 6, 2), (21, 21, 3), (1, 1, 1), (2, 9, 3)])
def test_the_eye_is_what_loops_give(source: tuple[int, int, int]) -> None:
    picture = Picture(*source)
    eye = Eye(picture).double()
    rows = picture.rows(some_pictures(picture, 2)) / 255.0
    found = eye(torch.from_numpy(rows)).detach().numpy()
    for row, mine in zip(rows, found, strict=True):
        x = row.reshape(source).transpose(2, 0, 1)
        for layer in eye.layers:
            x = slow_convolution(x, layer.weight.detach().numpy(), layer.bias.detach().numpy(), layer.stride)
        np.testing.assert_allclose(mine, x.ravel(), atol=1e-12)
    assert found.shape == (2, eye.features)


@pytest.mark.parametrize("kind", ["gaussian", "categorical"])
def test_gradients_are_those_of_finite_differences(kind: str) -> None:
    policy = made(kind).double()
    states = torch.from_numpy(SMALL.rows(some_pictures(SMALL, 4)))
    rng = np.random.default_rng(2)
    drawn = rng.standard_normal((4, 2)) if kind == "gaussian" else rng.integers((3, 2), size=(4, 2)).astype(float)
    actions, weights = torch.from_numpy(drawn), torch.linspace(-1, 2, 4, dtype=torch.float64)
    parameters = dict(policy.named_parameters())
    assert {"eye.layers.0.weight", "eye.layers.1.bias"} <= set(parameters)
    found = torch.autograd.grad(policy.log_prob(states, actions) @ weights, list(parameters.values()))
    for parameter, gradient in zip(parameters.values(), found, strict=True):
        flat = parameter.data.view(-1)
        for i in range(0, len(flat), max(1, len(flat) // 12)):
            ends = []
            for step in (1e-6, -2e-6):
                flat[i] += step
                ends.append(float((policy.log_prob(states, actions) @ weights).detach()))
            flat[i] += 1e-6
            assert gradient.reshape(-1)[i].item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-7)


def test_many_pictures_go_over_in_blocks_whose_activations_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = made("gaussian")
    states = torch.from_numpy(SMALL.rows(some_pictures(SMALL, 50)))
    actions = torch.from_numpy(np.random.default_rng(3).standard_normal((50, 2)).astype(np.float32))

    def looked() -> tuple[torch.Tensor, list[torch.Tensor]]:
        found = policy.log_prob(states, actions)
        return found.detach(), list(torch.autograd.grad(found.sum(), list(policy.parameters())))

    whole = looked()
    monkeypatch.setattr("mepol.algorithm.policy.ROWS", 20)
    kept = looked()
    monkeypatch.setattr("mepol.algorithm.policy.KEPT", 30)
    again = looked()
    torch.testing.assert_close(kept, again, rtol=0, atol=0)
    torch.testing.assert_close(whole, again)


@pytest.mark.parametrize("kind", ["gaussian", "categorical"])
def test_pictures_and_their_rows_are_acted_on_alike(kind: str) -> None:
    large = Picture(70, 50, 3)
    policy, pictures = made(kind, large), some_pictures(large, 4)
    rows = large.rows(pictures)
    found = policy.act(pictures, np.random.default_rng(5))
    np.testing.assert_array_equal(found, policy.act(rows, np.random.default_rng(5)))
    assert policy.act(pictures[0], np.random.default_rng(5)).shape == (2,)
    np.testing.assert_array_equal(
        policy.predict(pictures, deterministic=True)[0], policy.act(rows, np.random.default_rng(0), True)
    )
    if kind == "gaussian":
        mean = policy.output(torch.from_numpy(rows)).detach().numpy()
        np.testing.assert_allclose(policy.act(pictures, np.random.default_rng(0), True), mean, rtol=1e-5, atol=1e-6)


def test_a_mirrored_policy_of_pictures_starts_from_zero() -> None:
    policy = made("gaussian", hidden=(6,))
    policy.mirror()
    assert np.abs(policy.act(some_pictures(SMALL, 5), np.random.default_rng(0), True)).max() < 1e-7

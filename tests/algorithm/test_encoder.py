"""The frozen random encoder: against plain loops, fixed by its seed, and equal pictures held apart."""

from __future__ import annotations

import numpy as np
import pytest
from test_pictures import slow_convolution, some_pictures

from mepol import knn_entropy
from mepol.algorithm.encoder import DITHER, RandomEncoder
from mepol.algorithm.pictures import Picture


def slow_embedding(encoder: RandomEncoder, row: np.ndarray) -> np.ndarray:
    """64 numbers of one row, by loops; the maximum is over squares of 2 where it is at all."""
    x = row.reshape(encoder.picture.shape).transpose(2, 0, 1) / 255.0
    for number, (weight, bias) in enumerate(encoder.weights):
        x = slow_convolution(x, weight.numpy().astype(float), bias.numpy().astype(float), (1, 1))
        if number == 0:
            a, b = (2 if side >= 6 else 1 for side in x.shape[1:])
            h, w = x.shape[1] // a, x.shape[2] // b
            x = x[:, : h * a, : w * b].reshape(len(x), h, a, w, b).max(axis=(2, 4))
    flat = x.ravel()
    return flat if encoder.projection is None else encoder.projection.numpy() @ flat


@pytest.mark.parametrize("source", [(7, 7, 3), (9, 8, 1), (12, 3, 2), (1, 1, 3)])
def test_the_embedding_is_what_loops_give(source: tuple[int, int, int]) -> None:
    encoder = RandomEncoder(Picture(*source), seed=11)
    rows = encoder.picture.rows(some_pictures(encoder.picture, 2))
    found = encoder.embed(rows)
    assert found.shape == (2, 64)
    np.testing.assert_allclose(found, [slow_embedding(encoder, row) for row in rows], rtol=1e-4, atol=1e-5)


def test_pictures_of_seven_pixels_have_exactly_64_numbers() -> None:
    """alpha-MEPOL's size: its convolutions leave one pixel, and nothing is projected."""
    encoder = RandomEncoder(Picture(7, 7, 3), seed=0)
    assert encoder.projection is None
    assert [tuple(weight.shape) for weight, _ in encoder.weights] == [(16, 3, 2, 2), (32, 16, 2, 2), (64, 32, 2, 2)]
    assert RandomEncoder(Picture(21, 21, 3), 0).projection.shape == (64, 64 * 8 * 8)


def test_the_seed_fixes_all_and_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = Picture(10, 10, 3)
    rows = picture.rows(some_pictures(picture, 30))
    one, same, other = (RandomEncoder(picture, seed) for seed in (4, 4, 5))
    assert one.digest == same.digest != other.digest
    np.testing.assert_array_equal(one(rows), same(rows))
    assert np.abs(one(rows) - other(rows)).min(axis=1).max() > DITHER
    monkeypatch.setattr("mepol.algorithm.encoder.ROWS", 7)
    np.testing.assert_allclose(one.embed(rows), same.embed(rows.astype(np.float64)), rtol=1e-6)


def test_equal_pictures_are_held_apart_by_noise_of_the_size_that_is_said() -> None:
    picture = Picture(8, 8, 3)
    encoder = RandomEncoder(picture, 1)
    rows = np.repeat(picture.rows(some_pictures(picture, 1)), 500, axis=0)
    embedded = encoder(rows)
    noise = (embedded - encoder.embed(rows)) / DITHER
    assert noise.std() == pytest.approx(1.0, abs=0.02)
    assert len(np.unique(embedded, axis=0)) == 500
    # 500 draws of a normal density in 64 dimensions; k-nearest neighbours overrate it there, by tens of nats
    truth = 64 * (0.5 * np.log(2 * np.pi * np.e) + np.log(DITHER))
    assert abs(knn_entropy(embedded, k=4) - truth) < 0.1 * abs(truth)


def test_where_something_is_can_be_told_from_the_embedding() -> None:
    """A mean over the maps would lose it: one bright pixel at two places far from the edges."""
    picture = Picture(20, 20, 1)
    pictures = np.zeros((2, 20, 20, 1), np.uint8)
    pictures[0, 5, 5] = pictures[1, 14, 12] = 255
    first, second = RandomEncoder(picture, 3).embed(picture.rows(pictures))
    assert np.linalg.norm(first - second) > 0.3

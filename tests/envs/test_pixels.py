"""Painted states are recovered from their pictures; pictures of an environment's own; what a run stores of both."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from camera import Camera
from mepol import GaussianPolicy, collect
from mepol.algorithm.encoder import RandomEncoder
from mepol.algorithm.pictures import Picture
from mepol.envs.domain import Domain
from mepol.envs.gridworld import HALF_WIDTH, START_HIGH, START_LOW, blocked
from mepol.envs.make import make_env, make_single
from mepol.envs.pixels import BEHIND, MARGIN, ROAD, SIDE, paint_gridworld, paint_mountain_car
from mepol.errors import EnvironmentFault, RunError

PIXELS = SIDE - 1 - 2 * MARGIN


def centres(dots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns and rows of the centre of mass of (M, SIDE, SIDE) pictures, in pixels."""
    light = dots.astype(float)
    total, at = light.sum(axis=(1, 2)), np.arange(SIDE)
    return (light.sum(axis=1) @ at) / total, (light.sum(axis=2) @ at) / total


def test_the_position_is_recovered_from_the_picture_of_gridworld() -> None:
    states = np.random.default_rng(0).uniform(-HALF_WIDTH, HALF_WIDTH, (4000, 2))
    pictures = paint_gridworld(states)
    assert pictures.shape == (4000, 21, 21, 3)
    assert pictures.dtype == np.uint8
    column, row = centres(pictures[..., 0])
    unit = 2 * HALF_WIDTH / PIXELS
    found = np.stack([(column - MARGIN) * unit - HALF_WIDTH, HALF_WIDTH - (row - MARGIN) * unit], axis=1)
    assert np.abs(found - states).max() < 0.02 * unit


def test_walls_and_start_of_gridworld_stand_where_they_are() -> None:
    ground = paint_gridworld(np.zeros((1, 2)))[0, :, :, 1:]
    unit = 2 * HALF_WIDTH / PIXELS
    for row in range(SIDE):
        for column in range(SIDE):
            x, y = (column - MARGIN) * unit - HALF_WIDTH, HALF_WIDTH - (row - MARGIN) * unit
            inner = np.array([(x + a, y + b) for a in np.linspace(-0.49, 0.49, 9) * unit for b in (0, 0.4 * unit)])
            if blocked(inner).all():
                assert ground[row, column, 0] > 120
            elif not blocked(inner).any():
                assert ground[row, column, 0] < 135
            start = ((inner >= START_LOW) & (inner <= START_HIGH)).all(axis=1)
            assert (ground[row, column, 1] > 0) or not start.all()


def test_position_and_velocity_are_recovered_from_the_picture_of_mountain_car() -> None:
    rng = np.random.default_rng(1)
    states = np.stack([rng.uniform(-1.2, 0.45, 4000), rng.uniform(-0.07, 0.07, 4000)], axis=1)
    pictures = paint_mountain_car(states)
    unit = (ROAD[1] - ROAD[0]) / PIXELS
    now, before = (ROAD[0] + (centres(pictures[..., i])[0] - MARGIN) * unit for i in (0, 1))
    assert np.abs(now - states[:, 0]).max() < 0.02 * unit
    assert np.abs((now - before) / BEHIND - states[:, 1]).max() < 0.04 * unit / BEHIND


@pytest.mark.parametrize(
    ("env_id", "paint"), [("mepol/GridWorld-v0", paint_gridworld), ("mepol/MountainCar-v0", paint_mountain_car)]
)
def test_a_batch_moves_as_without_pictures_and_shows_its_states(env_id: str, paint: Any) -> None:
    class Steady:
        def act(self, obs: np.ndarray, rng: np.random.Generator, deterministic: bool = False) -> np.ndarray:
            return rng.uniform(-1, 1, (len(obs), size)).astype(np.float32)

    size = 2 if "Grid" in env_id else 1
    plain = collect(Steady(), make_env(env_id, 3), 20, seed=4)
    seen = collect(Steady(), make_env(env_id, 3, seen="pixels"), 20, seed=4)
    np.testing.assert_array_equal(seen.truth, plain.states)
    assert seen.states.dtype == np.uint8
    np.testing.assert_array_equal(seen.states, paint(plain.states.reshape(-1, 2)).reshape(3, 21, -1))
    alone = make_single(env_id, seen="pixels")
    row, info = alone.reset(seed=2)
    np.testing.assert_array_equal(row, paint(info["true_state"][None]).ravel())
    row, *_, info = alone.step(np.ones(size))
    np.testing.assert_array_equal(row, paint(info["true_state"][None]).ravel())


@pytest.mark.parametrize("kind", ["picture", "gray", "dict"])
def test_an_environment_of_pictures_gives_rows_and_its_numbers_as_truth(kind: str) -> None:
    env = make_env(lambda: Camera(kind), 3, seen="pictures")
    channels = 1 if kind == "gray" else 3
    rng = np.random.default_rng(0)
    batch = collect(lambda_actor(rng), env, 10, seed=0)
    assert batch.states.shape == (3, 11, 81 * channels)
    assert (batch.states.max(axis=2) == 200).all()
    where = np.argmax(batch.states.reshape(3, 11, 81, channels)[..., 0], axis=2)
    domain = Domain.of(env, name="camera", encoder_seed=5)
    assert domain.picture == Picture(9, 9, channels)
    assert domain.particles(batch).shape == (30, 64)
    if kind != "dict":
        assert (batch.truth, domain.truth, domain.grid) == (None, None, None)
        return
    np.testing.assert_array_equal(batch.truth, np.stack(np.divmod(where, 9), axis=-1))
    assert domain.places[0] == ("place.0", "place.1")
    assert domain.grid is not None
    assert domain.grid.names == ("place.0", "place.1")


def lambda_actor(rng: np.random.Generator) -> Any:
    class Choosing:
        def act(self, obs: np.ndarray, noise: np.random.Generator, deterministic: bool = False) -> np.ndarray:
            return rng.integers(0, 4, (len(obs), 1)).astype(np.float32)

    return Choosing()


def test_what_is_no_picture_is_one_sentence() -> None:
    with pytest.raises(EnvironmentFault, match=r"is a picture.*--encoder random"):
        make_env(Camera, 1)
    with pytest.raises(EnvironmentFault, match=r"encoder = 'random' needs one picture.*leave the encoder out"):
        make_env("Pendulum-v1", 1, seen="pictures")
    with pytest.raises(EnvironmentFault, match="observations = 'pixels' is not possible with PendulumEnv"):
        make_env("Pendulum-v1", 1, seen="pixels")
    with pytest.raises(EnvironmentFault, match="observations = 'pixels' is not possible with GridWorld200"):
        make_env("mepol/GridWorld200-v0", 1, seen="pixels")

    class Odd(Camera):
        def look(self) -> Any:
            return np.zeros((8, 9, 3), np.uint8)

    with pytest.raises(EnvironmentFault, match=r"observation of shape \(8, 9, 3\).*has \(9, 9, 3\)"):
        make_env(Odd, 1, seen="pictures").reset(seed=[0])


def test_a_domain_of_pictures_is_stored_and_read_back() -> None:
    env = make_env("mepol/GridWorld-v0", 2, seen="pixels")
    domain = Domain.of(env, name="mepol/GridWorld-v0", encoder_seed=7, heatmap_axes="x,y")
    text = domain.to_json()
    back = Domain.from_json(text)
    assert back.to_json() == text
    assert isinstance(back.features, RandomEncoder)
    assert back.truth is not None
    assert (back.truth.names, back.picture) == (("x", "y"), Picture(21, 21, 3))
    batch = collect(GaussianPolicy(21 * 21 * 3, 2, (4,), picture=back.picture), env, 5, seed=0)
    np.testing.assert_array_equal(back.particles(batch), domain.particles(batch))
    content = json.loads(text)
    for change, words in (
        ({"picture": [21, 20, 3]}, "makes rows of 1260"),
        ({"picture": [21, 21, 99]}, "a picture of shape"),
        ({"picture": None}, "its features must be an object of given"),
        ({"features": {"encoder": 8, "digest": content["features"]["digest"]}}, "its seed now draws others"),
        ({"features": [0, 1]}, "its features must be an object of encoder, digest"),
        ({"truth": None}, "its grid"),
    ):
        with pytest.raises(RunError, match=words):
            Domain.from_json(json.dumps({**content, **change}))

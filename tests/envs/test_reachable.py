"""Reachable cells against geometry, and pairs of coordinates as users write them."""

from __future__ import annotations

import dataclasses

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

from mepol.envs import gridworld, mountain_car
from mepol.envs.coordinates import Grid, pair_grid
from mepol.envs.make import make_env
from mepol.envs.reachable import coverage, reachable_cells
from mepol.errors import ConfigError

ROOMS = Grid((0, 1), ("x", "y"), (-6.0, -6.0), (6.0, 6.0), (20, 20))
HILLS = Grid((0, 1), ("position", "velocity"), (-1.2, -0.07), (0.6, 0.07), (12, 11))


def test_gridworlds_free_cells_are_those_that_no_wall_fills() -> None:
    mask = reachable_cells(make_env("mepol/GridWorld-v0", 1), ROOMS)
    # Cells of 0.6 lie inside the solid boxes where both of their ends do: exact, from the walls' coordinates.
    edges = np.linspace(-6, 6, 21)
    corners = np.sort(np.r_[edges, np.unique(gridworld.WALLS)])
    middles = (corners[1:] + corners[:-1])[np.diff(corners) > 1e-9] / 2
    lattice = np.stack(np.meshgrid(middles, middles, indexing="ij"), -1).reshape(-1, 2)
    free = lattice[~gridworld.blocked(lattice)]
    truth = np.histogram2d(*free.T, bins=[edges, edges])[0] > 0
    np.testing.assert_array_equal(mask, truth)
    assert mask.sum() == 288
    np.testing.assert_array_equal(mask, mask[::-1])  # the rooms are symmetric
    np.testing.assert_array_equal(mask, mask.T)


def test_every_state_found_on_the_mountain_is_one_that_was_driven_to() -> None:
    mask = reachable_cells(make_env("mepol/MountainCar-v0", 1), HILLS)
    assert mask.sum() == 111
    assert mask[11].sum() == 1  # the wall, at rest
    assert not mask[0, 10]  # nobody is at full speed at the very left, moving right
    # Whatever random driving visits was found.
    states = np.stack([np.linspace(-0.6, -0.4, 200), np.zeros(200)], axis=1)
    rng, direction = np.random.default_rng(0), np.ones(200)
    seen = np.zeros((12, 11), dtype=bool)
    for _ in range(300):
        direction = np.where(rng.random(200) < 0.03, -direction, direction)
        states = mountain_car.drive(states, direction)
        cell = np.clip(np.floor((states - [-1.2, -0.07]) / [1.8, 0.14] * [12, 11]), 0, [11, 10]).astype(int)
        seen[cell[:, 0], cell[:, 1]] = True
    assert seen.sum() > 90
    assert mask[seen].all()


def test_axes_may_be_swapped_and_unknown_sets_are_none() -> None:
    env = make_env("mepol/MountainCar-v0", 1)
    swapped = Grid((1, 0), HILLS.names[::-1], HILLS.low[::-1], HILLS.high[::-1], HILLS.bins[::-1])
    np.testing.assert_array_equal(reachable_cells(env, swapped), reachable_cells(env, HILLS).T)
    pendulum = gymnasium.make_vec("Pendulum-v1", 1)
    assert reachable_cells(pendulum, Grid((0, 1), ("a", "b"), (-1.0, -1.0), (1.0, 1.0), (5, 5))) is None


def test_planes_of_gridworld_200_are_gridworld_and_two_planes_have_no_walls_between_them() -> None:
    env = make_env("mepol/GridWorld200-v0", 1)
    rooms = reachable_cells(make_env("mepol/GridWorld-v0", 1), ROOMS)
    for axes in ((0, 1), (41, 40), (198, 199)):
        cells = reachable_cells(env, dataclasses.replace(ROOMS, axes=axes))
        np.testing.assert_array_equal(cells, rooms)  # the rooms are symmetric, so axes may be swapped
    for axes in ((0, 2), (1, 198), (3, 4)):
        assert reachable_cells(env, dataclasses.replace(ROOMS, axes=axes)).all()


def test_the_maze_has_its_free_cells_and_no_torso_in_a_wall() -> None:
    ant_maze = pytest.importorskip("mepol.envs.ant_maze")
    env = make_env("mepol/AntMaze-v0", 1)
    seven = Grid((0, 1), ("x", "y"), (-8.75, -8.75), (8.75, 8.75), (7, 7))  # a cell each of the map
    free = np.array([[mark != "#" for mark in row] for row in ant_maze.MAP])  # rows fall, columns grow
    np.testing.assert_array_equal(reachable_cells(env, seven), free[::-1].T)
    fine = dataclasses.replace(seven, bins=(350, 350))  # 0.05 each
    area = reachable_cells(env, fine).sum() * 0.05**2
    # The corridors are 2.5 wide, of which 2.0 are left to a torso of radius 0.25: 18 squares of 4, and between two
    # neighbouring ones (18 such pairs, since the maze has one loop) 0.5 x 2.0 more; corners are rounded a little.
    assert area == pytest.approx(18 * 4.0 + 18 * 1.0, rel=0.02)
    assert reachable_cells(env, dataclasses.replace(seven, axes=(0, 2))) is None
    env.close()


def test_coverage_counts_reachable_cells_only() -> None:
    visits = np.array([[3, 0], [1, 5]])
    assert coverage(visits, np.array([[True, True], [True, False]])) == pytest.approx(2 / 3)


SPACE = Box(np.array([-1.0, -np.inf, -2.0]), np.array([1.0, np.inf, 2.0]), dtype=np.float64)
NAMES = ("x", "y", "z")


def test_a_pair_is_read_with_and_without_ranges() -> None:
    assert pair_grid("x,z", NAMES, SPACE) == Grid((0, 2), ("x", "z"), (-1.0, -2.0), (1.0, 2.0), (20, 20))
    given = pair_grid("z:0:1.5:7, y:-12:12:40", NAMES, SPACE)
    assert given == Grid((2, 1), ("z", "y"), (0.0, -12.0), (1.5, 12.0), (7, 40))
    known = Grid((1, 0), ("y", "x"), (-9.0, -1.0), (9.0, 1.0), (30, 10))
    assert pair_grid("1,2", NAMES, SPACE, known) == Grid((1, 2), ("y", "z"), (-9.0, -2.0), (9.0, 2.0), (30, 20))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x,y,z", "must name one coordinate or two"),
        ("x,x", "twice"),
        ("x,y", "'y' is unbounded"),
        ("x,w", "'w'"),
        ("x:1,z", "not a coordinate"),
        ("x:a:b,z", "not a number"),
        ("x:0:1:0,z", "bins = 0"),
        ("x:1:1,z", "zero-width"),
    ],
)
def test_a_pair_that_means_nothing_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        pair_grid(text, NAMES, SPACE)

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("mujoco")

from mepol.envs import ant_maze
from mepol.envs.ant import AntVectorEnv
from mepol.envs.ant_maze import AntMazeVectorEnv
from mepol.errors import EnvironmentFault


def cell(x: float, y: float) -> str:
    """What the map says about the point (x, y)."""
    return ant_maze.MAP[3 - math.floor(y / ant_maze.CELL + 0.5)][3 + math.floor(x / ant_maze.CELL + 0.5)]


def test_the_map_is_closed_and_all_of_it_can_be_reached():
    rows = ant_maze.MAP
    assert set(rows[0] + rows[-1] + "".join(row[0] + row[-1] for row in rows)) == {"#"}
    reached, edge = set(), [(3, 3)]
    while edge:
        r, c = edge.pop()
        if rows[r][c] != "#" and (r, c) not in reached:
            reached.add((r, c))
            edge += [(r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)]
    assert len(reached) == sum(mark != "#" for row in rows for mark in row) == 18
    assert ant_maze.FREE_AREA == 112.5
    assert pytest.approx(math.log(18 * 6.25)) == ant_maze.ENTROPY_CEILING
    assert cell(0, 0) == "S"


def test_the_walls_stand_where_the_map_has_them():
    boxes = list(ant_maze.walls())
    rng = np.random.default_rng(0)
    for x, y in rng.uniform(-8.7, 8.7, (500, 2)):
        inside = any(abs(x - cx) < hx and abs(y - cy) < hy for (cx, cy), (hx, hy) in boxes)
        assert inside == (cell(x, y) == "#")


def test_away_from_the_walls_it_is_the_ant():
    actions = np.random.default_rng(0).uniform(-1, 1, (15, 2, 8))
    plane, maze = AntVectorEnv(2), AntMazeVectorEnv(2)
    np.testing.assert_array_equal(plane.reset(seed=3)[0], maze.reset(seed=3)[0])
    for action in actions:
        np.testing.assert_allclose(maze.step(action)[0], plane.step(action)[0], atol=1e-9)
    plane.close()
    maze.close()


@pytest.mark.parametrize("height", [0.75, 4.0])
def test_walls_stop_an_ant_thrown_in_any_direction_even_high_up(height):
    m = 16
    plane, maze = AntVectorEnv(m), AntMazeVectorEnv(m)
    for env in (plane, maze):
        env.reset(seed=0)
        for i, angle in enumerate(np.linspace(0, 2 * np.pi, m, endpoint=False)):
            qpos, qvel = env.model.qpos0.copy(), np.zeros(14)
            qpos[2] = height
            qvel[:2] = 12 * np.cos(angle), 12 * np.sin(angle)
            env.place(i, qpos, qvel)
    left = 0
    for _ in range(40):
        free, walled = plane.step(np.zeros((m, 8)))[0], maze.step(np.zeros((m, 8)))[0]
        assert all(cell(x, y) != "#" for x, y in walled[:, :2])
        left += sum(np.abs(free[:, :2]).max(axis=1) > 4)
    assert left > 0  # the same throw does leave when nothing stands in the way
    plane.close()
    maze.close()


def test_the_second_maze_is_the_first_in_a_mirror():
    upright, mirrored = ant_maze.MAZES["upright"], ant_maze.MAZES["mirrored"]
    assert mirrored != upright
    assert mirrored[3][3] == "S"
    boxes = {(-x, y, hx, hy) for (x, y), (hx, hy) in ant_maze.walls(upright)}
    assert {(x, y, hx, hy) for (x, y), (hx, hy) in ant_maze.walls(mirrored)} == boxes
    env = AntMazeVectorEnv(1, maze="mirrored")
    assert env.model.ngeom == AntMazeVectorEnv(1).model.ngeom
    places = {tuple(p) for p in np.round(env.reachable((0, 1)), 3)}
    assert places == {(-x, y) for x, y in np.round(ant_maze.free_places((0, 1), upright), 3)}
    assert env.reachable((0, 2)) is None
    env.close()
    with pytest.raises(EnvironmentFault, match="maze = 'other' is not possible: it must be one of upright, mirrored"):
        AntMazeVectorEnv(1, maze="other")

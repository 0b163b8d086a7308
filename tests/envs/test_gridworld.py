"""GridWorld: its geometry against an independent description, its moves, its contracts with Gymnasium."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import VectorEnv
from hypothesis import given
from hypothesis import strategies as st

from mepol.envs.gridworld import ENTROPY_CEILING, FREE_AREA, GridWorldVectorEnv, blocked
from mepol.envs.terrain import LAYOUTS, STEEP
from mepol.errors import EnvironmentFault

STEP = float(np.float32(0.2))


def solid(x: float, y: float) -> bool:
    """The walls as the release describes them, by absolute coordinates, borders included."""
    x, y = abs(x), abs(y)
    cross = (x <= 1.25 and y <= 2.5) or (1.25 <= x <= 2.5 and y <= 1.25)
    stubs = (3.5 <= x <= 6 and y <= 1.25) or (3.5 <= y <= 6 and x <= 1.25)
    return cross or stubs or x >= 6 or y >= 6


def at(*points: tuple[float, float]) -> GridWorldVectorEnv:
    env = GridWorldVectorEnv(len(points))
    env.reset(seed=0)
    env._position = np.array(points, dtype=float)
    return env


def test_free_area_by_monte_carlo() -> None:
    points = np.random.default_rng(0).uniform(-6, 6, (400_000, 2))
    assert 144 * (1 - blocked(points).mean()) == pytest.approx(100.25, abs=0.35)  # 3 sigma: 0.32
    assert FREE_AREA == 100.25
    assert pytest.approx(4.608, abs=5e-4) == ENTROPY_CEILING
    assert math.log(100.25) == ENTROPY_CEILING


@given(x=st.floats(-7, 7), y=st.floats(-7, 7))
def test_blocked_points_are_those_of_the_description(x: float, y: float) -> None:
    assert bool(blocked(np.array([[x, y]]))[0]) == solid(x, y)


@pytest.mark.parametrize("value", [1.25, 2.5, 3.5, 6.0, -1.25, -2.5, -3.5, -6.0])
def test_borders_belong_to_the_walls(value: float) -> None:
    for other in np.linspace(-6, 6, 97):
        for x, y in ((value, other), (other, value)):
            assert bool(blocked(np.array([[x, y]]))[0]) == solid(x, y)


def test_rooms_and_doorways() -> None:
    line = np.linspace(-6, 6, 24_001)
    gap = line[1] - line[0]

    def free_along(x: np.ndarray, y: np.ndarray) -> list[tuple[float, float]]:
        """Where one walks freely: (start, width) of each free stretch."""
        free = ~blocked(np.stack([x, y], axis=1))
        edges = np.flatnonzero(np.diff(np.r_[False, free, False]))
        return [(line[a], (b - a) * gap) for a, b in zip(edges[::2], edges[1::2], strict=True)]

    doorways = free_along(np.zeros_like(line), line)  # down the middle of the map: the two doorways along y
    assert [round(width, 2) for _, width in doorways] == [1.0, 1.0]
    assert [round(start, 2) for start, _ in doorways] == [-3.5, 2.5]
    rooms = free_along(line, np.full_like(line, 5.0))
    assert [round(width, 2) for _, width in rooms] == [4.75, 4.75]
    through = free_along(line, np.full_like(line, 3.0))  # along a doorway: from wall to wall of the map
    assert [round(width, 2) for _, width in through] == [12.0]


def test_starts_fill_the_lower_left_corner() -> None:
    env = GridWorldVectorEnv(4000)
    starts, _ = env.reset(seed=3)
    assert starts.min() >= -6
    assert starts.max() <= -4
    np.testing.assert_allclose(starts.mean(axis=0), -5, atol=0.04)
    np.testing.assert_allclose(starts.std(axis=0), 2 / math.sqrt(12), atol=0.02)
    assert not blocked(starts).any()


def test_a_free_move_is_taken_and_clipped() -> None:
    env = at((-5, -5), (-5, -5), (-5, -5))
    states, reward, terminated, truncated, _ = env.step(np.array([[0.1, -0.15], [3.0, -9.0], [-0.2, 0.0]]))
    np.testing.assert_allclose(states, [[-4.9, -5.15], [-5 + STEP, -5 - STEP], [-5 - STEP, -5]], atol=1e-12)
    assert not reward.any()
    assert not terminated.any()
    assert not truncated.any()


def test_a_blocked_move_is_cancelled_whole() -> None:
    points = [(-5.0, -1.3), (-5.95, -5.0), (-1.3, 0.0 + 2.6), (-2.55, 0.0)]
    moves = [[0.1, 0.1], [-0.1, 0.1], [0.2, -0.15], [0.06, 0.2]]
    env = at(*points)
    states, *_ = env.step(np.array(moves))
    np.testing.assert_array_equal(states, points)  # no sliding along the wall


def test_only_the_end_of_a_move_is_tested() -> None:
    env = at((1.26, 2.45))  # just right of the cross's corner: the straight line cuts it
    states, *_ = env.step(np.array([[-0.2, 0.15]]))
    np.testing.assert_allclose(states, [[1.26 - STEP, 2.6]], atol=1e-7)


@given(seed=st.integers(0, 10_000), scale=st.floats(0.01, 5.0))
def test_an_agent_is_never_inside_a_wall(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    env = GridWorldVectorEnv(20)
    states, _ = env.reset(seed=seed)
    drift = rng.uniform(-1, 1, (20, 2))
    for _ in range(60):
        before = states
        states, *_ = env.step(scale * (drift + rng.standard_normal((20, 2))))
        assert not any(solid(x, y) for x, y in states)
        assert np.abs(states - before).max() <= STEP + 1e-12
        assert env.observation_space.contains(states)


def test_a_batch_of_n_is_n_singles() -> None:
    rng = np.random.default_rng(0)
    batch = GridWorldVectorEnv(3)
    singles = [gymnasium.make("mepol/GridWorld-v0") for _ in range(3)]
    states, _ = batch.reset(seed=11)
    alone = [env.reset(seed=11 + i)[0] for i, env in enumerate(singles)]
    np.testing.assert_array_equal(states, alone)
    for _ in range(200):
        actions = rng.uniform(-0.2, 0.2, (3, 2)).astype(np.float32)
        states, *_ = batch.step(actions)
        alone = [env.step(action)[0] for env, action in zip(singles, actions, strict=True)]
        np.testing.assert_array_equal(states, alone)


def test_observations_are_not_overwritten_by_later_steps() -> None:
    env = GridWorldVectorEnv(2)
    first, _ = env.reset(seed=0)
    kept = first.copy()
    env.step(np.full((2, 2), 0.1))
    np.testing.assert_array_equal(first, kept)


def test_some_can_be_reset_alone_and_seeds_are_counted() -> None:
    env = at((0.0, 3.0), (3.0, 0.0))
    states, _ = env.reset(options={"reset_mask": np.array([True, False])})
    np.testing.assert_array_equal(states[1], [3.0, 0.0])
    assert states[0].max() <= -4
    with pytest.raises(EnvironmentFault, match="3 seeds for 2 environments"):
        env.reset(seed=[1, 2, 3])


def test_gymnasium_accepts_it() -> None:
    check_env(gymnasium.make("mepol/GridWorld-v0", render_mode="rgb_array").unwrapped)


def test_make_vec_gives_the_native_batch() -> None:
    env = gymnasium.make_vec("mepol/GridWorld-v0", num_envs=5)
    assert isinstance(env, VectorEnv)
    assert isinstance(env.unwrapped, GridWorldVectorEnv)
    states, _ = env.reset(seed=0)
    assert states.shape == (5, 2)
    states, reward, terminated, truncated, _ = env.step(env.action_space.sample())
    assert states.shape == (5, 2)
    assert reward.shape == terminated.shape == truncated.shape == (5,)


def test_the_picture_follows_the_agent() -> None:
    env = gymnasium.make("mepol/GridWorld-v0", render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    assert before.shape == (480, 480, 3)
    assert before.dtype == np.uint8
    for _ in range(10):
        env.step(np.array([0.2, 0.2], dtype=np.float32))
    assert (env.render() != before).any()
    assert gymnasium.make("mepol/GridWorld-v0").unwrapped.render() is None
    vector = GridWorldVectorEnv(3, "rgb_array")
    vector.reset(seed=0)
    assert [frame.shape for frame in vector.render()] == [(480, 480, 3)] * 3


def test_the_agent_is_drawn_where_it_is() -> None:
    env = GridWorldVectorEnv(1, "rgb_array")
    env.reset(seed=0)
    env._position = np.array([[3.0, 5.0]])
    (frame,) = env.render()
    red = np.argwhere((frame == (220, 50, 47)).all(axis=2)).mean(axis=0)
    np.testing.assert_allclose(red, [(6 - 5) * 40, (3 + 6) * 40], atol=1.5)


def test_another_render_mode_is_refused() -> None:
    with pytest.raises(EnvironmentFault, match="render_mode = 'human'"):
        GridWorldVectorEnv(1, "human")


# --- Other worlds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_every_layout_leaves_the_start_free_and_all_of_it_can_be_reached(layout: str) -> None:
    """By a flood over points 0.1 apart, nearer than any move reaches."""
    line = np.arange(-59, 60) / 10
    lattice = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1)
    free = ~blocked(lattice.reshape(-1, 2), LAYOUTS[layout]).reshape(len(line), len(line))
    assert free[:20, :20].all()
    seen, edge = np.zeros_like(free), [(0, 0)]
    while edge:
        i, j = edge.pop()
        if 0 <= i < len(line) and 0 <= j < len(line) and free[i, j] and not seen[i, j]:
            seen[i, j] = True
            edge += [(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)]
    np.testing.assert_array_equal(seen, free)
    env = GridWorldVectorEnv(1, layout=layout)
    assert not blocked(env.reachable((0, 1)), LAYOUTS[layout]).any()
    assert len(env.reachable((0, 1))) * 0.02**2 == pytest.approx(144 - AREAS[layout], rel=0.01)


AREAS = {"rooms": 43.75, "open": 0.0, "block": 25.0, "bars": 19.0, "columns": 19.0}  # of the walls, by hand


@pytest.mark.parametrize(
    ("slope", "drift"), [("north", (0, 1)), ("south", (0, -1)), ("east", (1, 0)), ("west", (-1, 0))]
)
def test_a_slope_moves_by_its_drift_and_walls_stop_it(slope: str, drift: tuple[int, int]) -> None:
    env = GridWorldVectorEnv(2, slope=slope)
    env.reset(seed=0)
    env._position = np.array([[4.0, 4.0], [4.0, -4.0]])
    before = env.observe()
    after, *_ = env.step(np.array([[0.1, -0.1], [0.0, 0.0]]))
    np.testing.assert_allclose(after - before, np.array([[0.1, -0.1], [0.0, 0.0]]) + np.multiply(drift, STEEP * 0.2))
    for _ in range(400):
        env.step(np.zeros((2, 2)))
    ends = env.observe()
    assert not blocked(ends).any()
    np.testing.assert_array_equal(env.step(np.zeros((2, 2)))[0], ends)  # at the wall it stays


def test_a_plane_may_slope_on_the_left_alone_by_a_share_of_its_own_largest_move() -> None:
    env = GridWorldVectorEnv(3, slope="west", steepness=0.5, sloping="left", max_move=0.8)
    env.reset(seed=0)
    env._position = np.array([[-4.0, 4.0], [0.0, 3.0], [4.0, 4.0]])
    before = env.observe()
    after, *_ = env.step(np.array([[0.8, 0.0], [0.8, 0.1], [0.8, 0.0]]))
    np.testing.assert_allclose(after - before, [[0.4, 0.0], [0.4, 0.1], [0.8, 0.0]])
    np.testing.assert_allclose(env.single_action_space.high, 0.8)


def test_a_flat_plane_is_the_paper_s_to_the_bit() -> None:
    envs = GridWorldVectorEnv(3), GridWorldVectorEnv(3, layout="rooms", slope="flat", steepness=0.5, sloping="left")
    rng = np.random.default_rng(0)
    for env in envs:
        env.reset(seed=1)
    for _ in range(50):
        actions = rng.uniform(-0.2, 0.2, (3, 2))
        np.testing.assert_array_equal(*(env.step(actions)[0] for env in envs))


def test_worlds_that_are_not_there_are_named() -> None:
    for wrong in ({"layout": "maze"}, {"slope": "up"}, {"sloping": "right"}):
        with pytest.raises(EnvironmentFault, match="is not possible: it must be one of"):
            gymnasium.make("mepol/GridWorld-v0", **wrong)
    for wrong, remedy in (
        ({"slope": "north", "steepness": 1.0}, "steepness = 1 is not possible: from 0 to below 1"),
        ({"max_move": 0.0}, "max_move = 0 is not possible: above 0, below 6"),
    ):
        with pytest.raises(EnvironmentFault, match=remedy):
            gymnasium.make("mepol/GridWorld-v0", **wrong)

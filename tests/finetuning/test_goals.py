"""Goals on states whose answer is known by hand, and tasks against their domains."""

from __future__ import annotations

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import mepol  # noqa: F401  registers the tasks
from mepol.envs.ant import AntVectorEnv
from mepol.envs.gridworld import GridWorldVectorEnv
from mepol.envs.mountain_car import MountainCarVectorEnv
from mepol.errors import ConfigError, EnvironmentFault
from mepol.finetuning import goals, pools
from mepol.finetuning.reach import ReachVectorEnv
from mepol.finetuning.tasks import TASKS, Task, find_task, make_task


def ant_state(z: float, quat: tuple[float, float, float, float] = (1, 0, 0, 0), x: float = 0, y: float = 0):
    state = np.zeros((1, 29))
    state[0, :7] = (x, y, z, *quat)
    return state


@pytest.mark.parametrize(("name", "centre"), [("grid-goal1", (5, 5)), ("grid-goal2", (2, 5)), ("grid-goal3", (5, 2))])
def test_a_grid_goal_is_a_disc_of_radius_a_tenth(name, centre):
    x, y = centre
    states = np.array([(x, y), (x + 0.09, y), (x, y - 0.101), (x + 0.08, y + 0.08), (-5, -5)], dtype=float)
    assert TASKS[name].goal(states).tolist() == [True, True, False, False, False]


def test_heights_and_distances():
    assert goals.ant_jump(ant_state(3.01)).item()
    assert not goals.ant_jump(ant_state(3.0)).item()
    assert goals.ant_navigate(ant_state(0.5, x=-5, y=5)).item()
    assert not goals.ant_navigate(ant_state(0.5, x=6.9)).item()
    assert not goals.ant_navigate_x(ant_state(0.5, x=-9)).item()
    assert goals.ant_navigate_x(ant_state(0.5, x=7)).item()
    assert goals.humanoid_up(ant_state(1.0)).item()
    assert not goals.humanoid_up(ant_state(0.99)).item()


def test_escape_needs_height_and_the_right_way_up():
    half = np.sqrt(0.5)
    assert goals.ant_escape(ant_state(0.81)).item()
    assert not goals.ant_escape(ant_state(0.79)).item()
    assert not goals.ant_escape(ant_state(0.81, (0, 1, 0, 0))).item()  # on its back
    assert not goals.ant_escape(ant_state(0.95, (half, half, 0, 0))).item()  # on its side, one hip at 0.75
    assert goals.ant_escape(ant_state(0.81, (half, 0, 0, half))).item()  # turned about the vertical


def test_the_hips_of_the_escape_goal_are_those_of_the_model():
    env = AntVectorEnv(1, threads=1)
    rng = np.random.default_rng(3)
    for _ in range(20):
        qpos = env.model.qpos0.copy()
        qpos[2], qpos[3:7] = rng.uniform(0.5, 1.2), rng.standard_normal(4)
        qpos[3:7] /= np.linalg.norm(qpos[3:7])
        env.place(0, qpos, np.zeros(14))
        hips = [
            env.data[0].xpos[mujoco.mj_name2id(env.model, mujoco.mjtObj.mjOBJ_BODY, f"aux_{i}")][2]
            for i in (1, 2, 3, 4)
        ]
        upright = env.data[0].xmat[1].reshape(3, 3)[2, 2] > 0
        assert goals.ant_escape(env.observe()).item() == (min(hips) >= 0.8 and upright)
        forward, left, _ = goals.world_z(env.observe())
        assert min(hips) == pytest.approx(qpos[2] - 0.2 * (abs(forward) + abs(left)).item())
    env.close()


@pytest.mark.filterwarnings("ignore:.*A Box observation space (minimum|maximum) value")
@pytest.mark.parametrize("name", TASKS)
def test_registered_tasks_pass_gymnasiums_checks(name):
    env = gymnasium.make(TASKS[name].id)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_a_task_moves_as_its_domain_and_rewards_only_the_goal():
    task, domain = (
        gymnasium.make_vec("mepol/GridGoal1-v0", 3, vectorization_mode="vector_entry_point"),
        GridWorldVectorEnv(3),
    )
    states, _ = task.reset(seed=4)
    assert np.array_equal(states, domain.reset(seed=4)[0])
    domain._position[1] = task.unwrapped._position[1] = (4.75, 5.0)
    for _ in range(3):
        actions = np.full((3, 2), (0.1, 0.0))
        states, rewards, terminated, truncated, _ = task.step(actions)
        assert np.array_equal(states, domain.step(actions)[0])
        assert np.array_equal(terminated, goals.near(5, 5)(states))
        assert np.array_equal(rewards, terminated.astype(float))
        assert not truncated.any()
    assert terminated.tolist() == [False, True, False]


def test_time_runs_out_at_the_horizon_and_a_mask_restarts_only_its_own():
    env = ReachVectorEnv(GridWorldVectorEnv(2), goals.near(5, 5), horizon=3)
    env.reset(seed=0)
    still = np.zeros((2, 2))
    env.step(still)
    before, *_ = env.step(still)
    after, _ = env.reset(options={"reset_mask": np.array([True, False])})
    assert not np.array_equal(before[0], after[0])
    assert np.array_equal(before[1], after[1])
    _, _, terminated, truncated, _ = env.step(still)
    assert not terminated.any()
    assert truncated.tolist() == [False, True]


def test_a_goal_of_the_users_own(tmp_path, monkeypatch):
    (tmp_path / "goals_of_mine.py").write_text(
        "def fast(states):\n    return states[:, 1] > 0.001\n\ndef wrong(states):\n    return states\n"
    )
    monkeypatch.chdir(tmp_path)
    env = make_task(find_task("goals_of_mine:fast", "mepol/MountainCar-v0", 50), 2)
    assert env.horizon == 50
    env.reset(seed=1)
    _, rewards, terminated, _, _ = env.step(np.array([[1.0], [-1.0]]))
    assert rewards.tolist() == terminated.tolist()
    wrong = ReachVectorEnv(MountainCarVectorEnv(2), find_task("goals_of_mine:wrong", "mepol/MountainCar-v0").goal, 5)
    wrong.reset(seed=0)
    with pytest.raises(EnvironmentFault, match="not \\(2,\\) truth values"):
        wrong.step(np.zeros((2, 1)))
    with pytest.raises(ConfigError, match="needs an environment"):
        find_task("goals_of_mine:fast")
    with pytest.raises(ConfigError, match="cannot import"):
        find_task("goals_of_mine:absent", "mepol/MountainCar-v0")


def test_any_gymnasium_environment_can_carry_a_goal():
    task = Task("Pendulum-v1", lambda states: states[:, 0] > 0.99, horizon=4)
    env = make_task(task, 2)
    states, _ = env.reset(seed=[1, 2])
    for _ in range(4):
        states, rewards, terminated, truncated, _ = env.step(np.zeros((2, 1)))
        assert np.array_equal(rewards > 0, states[:, 0] > 0.99)
    assert (terminated | truncated).all()
    env.close()


def test_an_unknown_task_names_the_nearest():
    for typed, meant in (("antjump", "ant-jump"), ("Pendulum-v0", "Pendulum-v1"), ("pendulum", "Pendulum-v1")):
        with pytest.raises(ConfigError, match=f"did you mean '{meant}'"):
            find_task(typed)


def test_humanoids_start_on_the_ground_from_the_stored_pool_and_seeds_repeat():
    pool = pools.load("humanoid_up")
    assert pool.shape == (100, 47)
    assert pools.humanoid_on_the_ground(pool).all()
    assert len(np.unique(pool, axis=0)) == 100
    env = make_task(TASKS["humanoid-up"], 4, threads=1)
    states, _ = env.reset(seed=5)
    assert all((state == pool).all(axis=1).any() for state in states)
    assert np.array_equal(states, env.reset(seed=5)[0])
    assert not TASKS["humanoid-up"].goal(states).any()
    env.close()


def test_ants_start_on_their_backs_from_the_stored_pool():
    pool = pools.load("ant_escape")
    assert pool.shape == (100, 29)
    assert pools.ant_on_its_back(pool).all()
    assert len(np.unique(pool, axis=0)) == 100
    env = make_task(TASKS["ant-escape"], 2, threads=1)
    states, _ = env.reset(seed=5)
    assert all((state == pool).all(axis=1).any() for state in states)
    env.close()


def test_a_search_for_start_states_repeats_and_does_not_depend_on_its_neighbours():
    def fallen(states):
        return states[:, 0] > -4.5

    three = pools.find(GridWorldVectorEnv(3), fallen, seed=1, min_steps=2)
    assert fallen(three).all()
    assert np.array_equal(three[:2], pools.find(GridWorldVectorEnv(2), fallen, seed=1, min_steps=2))

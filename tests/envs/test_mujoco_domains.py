"""Each domain by its id: names, spaces, Gymnasium's own checker, and independence from MuJoCo when not used."""

from __future__ import annotations

import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import mepol  # noqa: F401  (registers the ids)

pytest.importorskip("mujoco")
pytest.importorskip("gymnasium_robotics")

SIZES = {"Ant": (29, 8), "AntMaze": (29, 8), "Humanoid": (47, 17), "HandReach": (63, 20), "GridWorld200": (200, 200)}


@pytest.mark.parametrize("domain", SIZES)
def test_the_checker_is_content_with_the_single_environment(domain):
    env = gymnasium.make(f"mepol/{domain}-v0", disable_env_checker=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(infinity|symmetric).*")
        check_env(env.unwrapped, skip_render_check=True)
    env.close()


@pytest.mark.parametrize(("domain", "sizes"), SIZES.items())
def test_the_vector_environment_has_the_papers_sizes_and_a_name_for_each_coordinate(domain, sizes):
    env = gymnasium.make_vec(f"mepol/{domain}-v0", num_envs=3, vectorization_mode="vector_entry_point")
    states, _ = env.reset(seed=0)
    assert states.shape == (3, sizes[0])
    assert states.dtype == np.float64
    assert env.single_action_space.shape == sizes[1:]
    assert len(env.feature_names) == len(set(env.feature_names)) == sizes[0]
    assert not any(mark in name for name in env.feature_names for mark in ",: ")  # they are typed on command lines
    env.close()


def test_names_stand_for_the_models_own_joints():
    from mepol.envs.ant import AntVectorEnv
    from mepol.envs.hand_reach import HandReachVectorEnv
    from mepol.envs.humanoid import HumanoidVectorEnv

    for domain in (AntVectorEnv, HumanoidVectorEnv, HandReachVectorEnv):
        env = domain(1)
        for joint in map(env.model.joint, range(env.model.njnt)):
            name = joint.name.removeprefix("robot0:")
            if name == "root":
                assert env.feature_names[:3] == ("x", "y", "z")
                np.testing.assert_array_equal(env.model.qpos0[3:7], (1, 0, 0, 0))  # quat_w is first
            else:
                assert env.feature_names[joint.qposadr[0]] == name
                assert env.feature_names[env.model.nq + joint.dofadr[0]] == f"{name}_velocity"
        env.close()


def test_fingertips_are_the_last_fifteen_in_the_order_of_their_names():
    from mepol.envs.hand_reach import HandReachVectorEnv

    env = HandReachVectorEnv(1)
    states, _ = env.reset(seed=0)
    for tip in ("ff", "mf", "rf", "lf", "th"):
        where = env.feature_names.index(f"{tip}tip_x")
        np.testing.assert_array_equal(states[0, where : where + 3], env.data[0].site(f"robot0:S_{tip}tip").xpos)
    assert env.feature_names[48] == "fftip_x"
    env.close()


def test_the_hands_actions_span_each_actuators_range():
    from mepol.envs.hand_reach import HandReachVectorEnv

    env = HandReachVectorEnv(3)
    low, high = env.model.actuator_ctrlrange.T
    controls = env.control(np.array([[-1.0] * 20, [0.0] * 20, [1.0] * 20]))
    np.testing.assert_allclose(controls, [low, (low + high) / 2, high], atol=1e-12)
    env.close()


def test_mepol_imports_without_mujoco_and_a_missing_one_is_named():
    code = (
        "import sys; sys.modules['mujoco'] = None\n"
        "import gymnasium, mepol\n"
        "gymnasium.make('mepol/GridWorld200-v0').reset(seed=0)\n"
        "try:\n    gymnasium.make('mepol/Ant-v0')\n"
        "except mepol.MepolError as fault:\n    assert 'mepol[mujoco]' in str(fault)\n"
        "else:\n    raise SystemExit('no error')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    code = "import sys, mepol; sys.exit('mujoco' in sys.modules or 'gymnasium_robotics' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

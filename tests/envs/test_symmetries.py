"""The mirrors that environments name, against their own physics."""

from __future__ import annotations

import dataclasses
import json

import gymnasium
import mujoco
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from mepol.algorithm.symmetry import Mirror, Symmetry
from mepol.envs.domain import Domain
from mepol.envs.gridworld import GridWorldVectorEnv
from mepol.envs.symmetries import symmetries_of
from mepol.errors import ConfigError, EnvironmentFault, RunError


def image(mirror, values):
    return mirror.image(torch.from_numpy(np.asarray(values, dtype=np.float64))).numpy()


def domain_of(env):
    return Domain.of(env, name="here")


def even_humanoid(model):
    """The model but for the two values that differ between its sides: inertia of the hips, springs of the knees."""
    for joint, values in (("hip_y", model.dof_armature), ("knee", model.jnt_stiffness)):
        dof = values is model.dof_armature
        left, right = (model.joint(f"{side}_{joint}") for side in ("left", "right"))
        places = (left.dofadr[0], right.dofadr[0]) if dof else (left.id, right.id)
        assert values[places[0]] != values[places[1]]
        values[places[0]] = values[places[1]]
    mujoco.mj_setConst(model, mujoco.MjData(model))


@pytest.mark.parametrize(
    ("name", "mirrors", "prepare"),
    [("mepol/Ant-v0", 2, lambda model: None), ("mepol/Humanoid-v0", 1, even_humanoid)],
)
def test_a_body_moves_in_the_mirror_as_its_mirrored_actions_say(name, mirrors, prepare):
    """From random states on the ground and above it, by MuJoCo itself."""
    env = gymnasium.make_vec(name, 2)
    body, symmetries = env.unwrapped, domain_of(env).symmetries
    prepare(body.model)
    assert len(symmetries) == mirrors
    rng, nq, rest = np.random.default_rng(0), body.model.nq, np.append(body.model.qpos0, np.zeros(body.model.nv))
    for height in (0.0, 0.0, 0.4):
        state = rest + 0.05 * rng.standard_normal(len(rest))
        state[2] += height
        state[3:7] /= np.linalg.norm(state[3:7])
        actions = 0.4 * rng.uniform(-1, 1, (8, env.single_action_space.shape[0]))
        for symmetry in symmetries:
            env.reset(seed=0)
            for i, start in enumerate((state, image(symmetry.states, state))):
                body.place(i, start[:nq], start[nq:])
            for action in actions:
                seen, *_ = env.step(np.stack([action, image(symmetry.actions, action)]))
                np.testing.assert_allclose(seen[1], image(symmetry.states, seen[0]), atol=1e-4)
            assert np.abs(seen[0] - state).max() > 0.05  # it did move
    env.close()


def test_starts_are_as_likely_as_their_images():
    """Means and spreads of many starts of the Ant, coordinate by coordinate."""
    env = gymnasium.make_vec("mepol/Ant-v0", 20)
    starts = np.concatenate([env.reset(seed=20 * i)[0] for i in range(100)])
    for symmetry in domain_of(env).symmetries:
        seen = image(symmetry.states, starts)
        np.testing.assert_allclose(seen.mean(0), starts.mean(0), atol=0.01)
        np.testing.assert_allclose(seen.std(0), starts.std(0), atol=0.01)
    env.close()


def test_gridworld_is_the_same_with_x_and_y_exchanged():
    rng, env = np.random.default_rng(0), GridWorldVectorEnv(200)
    (diagonal,) = env.symmetries
    env._position = rng.uniform(-6, 6, (200, 2))
    before, moves = env.observe(), rng.uniform(-0.3, 0.3, (200, 2))
    after, *_ = env.step(moves)
    env._position = image(diagonal.states, before)
    mirrored, *_ = env.step(image(diagonal.actions, moves))
    np.testing.assert_array_equal(mirrored, image(diagonal.states, after))
    blocked = (after == before).all(1)
    assert 10 < blocked.sum() < 150  # walls were met


@pytest.mark.parametrize("kwargs", [{"slope": "east"}, {"slope": "south"}])
def test_a_slope_has_no_mirror(kwargs):
    assert GridWorldVectorEnv(1, **kwargs).symmetries == ()


def test_an_ant_between_walls_has_no_mirror():
    env = gymnasium.make_vec("mepol/AntMaze-v0", 1)
    assert domain_of(env).symmetries == ()
    env.close()


class Told(gymnasium.Env):
    """Two coordinates, one action, and what it says of its mirrors."""

    observation_space = Box(-1.0, 1.0, (2,))
    action_space = Box(-1.0, 1.0, (1,))

    def __init__(self, symmetries):
        self.symmetries = symmetries

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, dtype=np.float32), {}

    def step(self, action):
        return np.zeros(2, dtype=np.float32), 0.0, False, False, {}


TURNED = Symmetry(Mirror((0, 1), (-1, 1)), Mirror((0,), (-1,)))
EXCHANGED = Symmetry(Mirror((1, 0), (1, 1)), Mirror((0,), (1,)))


def batch_of(symmetries):
    return gymnasium.vector.SyncVectorEnv([lambda: gymnasium.wrappers.TimeLimit(Told(symmetries), 10)] * 2)


def test_an_environment_of_ones_own_names_them():
    assert domain_of(batch_of([TURNED])).symmetries == (TURNED,)
    assert domain_of(batch_of(None)).symmetries == ()


@pytest.mark.parametrize("wrong", [["left"], 4, [Symmetry(Mirror((0,), (-1,)), Mirror((0,), (-1,)))], [TURNED] * 9])
def test_those_that_do_not_fit_are_named(wrong):
    with pytest.raises(EnvironmentFault, match=r"at most 8 .* its 2 state coordinates and 1 actions"):
        symmetries_of(batch_of(wrong), 2, 1)


def test_mirrors_that_depend_on_their_order_are_refused():
    with pytest.raises(ConfigError, match="in the other order"):
        symmetries_of(batch_of([TURNED, EXCHANGED]), 2, 1)


def test_they_are_stored_and_read_back():
    domain = domain_of(batch_of([TURNED]))
    assert Domain.from_json(domain.to_json()).symmetries == (TURNED,)
    plain = dataclasses.replace(domain, symmetries=())
    assert "symmetries" not in json.loads(plain.to_json())  # as before there were any
    assert Domain.from_json(plain.to_json()).symmetries == ()


@pytest.mark.parametrize(
    "forged",
    [
        [{"states": [1, 2], "actions": [0]}],
        [{"states": [1, 1], "actions": [1]}],
        [{"states": [1, 3], "actions": [1]}],
        [{"states": [1], "actions": [1]}],
        [{"states": [1, 2]}],
        {"states": [1, 2], "actions": [1]},
        [{"states": [1, 2], "actions": [1]}] * 9,
        [{"states": [1.0, 2], "actions": [1]}],
    ],
)
def test_a_forged_one_is_a_named_error(forged):
    content = json.loads(domain_of(batch_of([TURNED])).to_json())
    with pytest.raises(RunError, match=r"domain\.json is not a domain"):
        Domain.from_json(json.dumps({**content, "symmetries": forged}))

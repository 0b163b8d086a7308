"""Mixtures: weights against known numbers, draws by their shares, files that are checked before they are believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from mepol.envs.make import make_env
from mepol.errors import PolicyFileError
from mepol.exploration.maxent.mixture import mixture_weights, simplex_projection
from mepol.runs.policies import load_policy, policy_bytes
from mepol.runs.tensors import tensor_bytes
from mepol.sampling.actors import Mixture, UniformActor
from mepol.sampling.collect import collect

BOX = UniformActor(np.full(2, -0.2, np.float32), np.full(2, 0.2, np.float32))


@pytest.mark.parametrize(
    ("n", "known"),
    [
        (1, [1.0]),
        (2, [0.455, 0.545]),
        (3, [0.249, 0.330, 0.420]),
        (4, [0.132, 0.205, 0.286, 0.376]),
        (5, [0.0534, 0.1190, 0.1919, 0.2729, 0.3629]),
        (9, [0, 0, 0, 0, 0.0534, 0.1190, 0.1919, 0.2729, 0.3629]),
    ],
)
def test_geometric_weights_are_those_of_the_released_code(n: int, known: list[float]) -> None:
    np.testing.assert_allclose(mixture_weights(n, "geometric"), known, atol=6e-4)


def test_the_projection_is_the_nearest_point_of_the_simplex() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = rng.normal(size=5)
        nearest = simplex_projection(values)
        assert nearest.sum() == pytest.approx(1.0)
        assert nearest.min() >= 0
        others = rng.dirichlet(np.ones(5), 300)
        assert ((others - values) ** 2).sum(1).min() >= ((nearest - values) ** 2).sum() - 1e-12
    np.testing.assert_allclose(simplex_projection(np.array([0.2, 0.3, 0.5])), [0.2, 0.3, 0.5])


@pytest.fixture
def mixture(make_policy: Callable) -> Mixture:
    """Uniform actions, and two nearly deterministic policies that go left and right."""
    policies = []
    for side in (-5.0, 5.0):
        policy = make_policy(hidden=(4,), log_std=-10.0)
        for parameter in policy.layers.parameters():
            parameter.data.zero_()
        policy.layers[-1].bias.data.fill_(side)
        policies.append(policy)
    return Mixture(BOX, tuple(policies), np.array([0.5, 0.2, 0.3]))


def test_components_act_by_their_shares(mixture: Mixture) -> None:
    actions = mixture.act(np.zeros((20_000, 2)), np.random.default_rng(0))
    shares = [(np.abs(actions) < 1).all(1).mean(), (actions < -4).all(1).mean(), (actions > 4).all(1).mean()]
    np.testing.assert_allclose(shares, [0.5, 0.2, 0.3], atol=0.015)
    assert mixture.act(np.zeros(2), np.random.default_rng(0)).shape == (2,)


def test_a_component_is_drawn_each_step_or_once_an_episode(mixture: Mixture) -> None:
    env = make_env("mepol/GridWorld-v0", 40)
    for draw in ("step", "episode"):
        actor = Mixture(mixture.uniform, mixture.policies, mixture.weights, draw)
        actions = collect(actor, env, 30, seed=np.random.SeedSequence(0)).actions[..., 0]
        kinds = np.where(actions < -4, 1, np.where(actions > 4, 2, 0))
        constant = (kinds == kinds[:, :1]).all(1)
        assert constant.all() == (draw == "episode")
        assert len(np.unique(kinds)) == 3


def test_a_mixture_survives_its_file(mixture: Mixture, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(policy_bytes(mixture))
    saved = load_policy(path)
    assert policy_bytes(saved) == path.read_bytes()
    obs = np.random.default_rng(0).normal(size=(50, 2))
    np.testing.assert_array_equal(saved.act(obs, np.random.default_rng(1)), mixture.act(obs, np.random.default_rng(1)))
    empty = Mixture(BOX, (), np.ones(1), "episode")
    path.write_bytes(policy_bytes(empty))
    assert load_policy(path).draw == "episode"


def test_files_that_are_no_mixture_are_refused(mixture: Mixture, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    good = policy_bytes(mixture)
    flipped = bytearray(good)
    flipped[-1] ^= 1
    tensors = {"weights": torch.ones(3, dtype=torch.float64)}
    header = {"format": "mepol-mixture-1", "size": "2", "widths": json.dumps([2, 4, 2])}
    for bad in (
        b"",
        good[:-20],
        bytes(flipped),
        tensor_bytes(tensors, header),
        tensor_bytes(tensors, {**header, "size": "-1"}),
        tensor_bytes(tensors, {**header, "size": "999999999999"}),
        policy_bytes(Mixture(BOX, mixture.policies, np.array([0.5, 0.5, 0.5]))),
    ):
        path.write_bytes(bad)
        with pytest.raises(PolicyFileError, match=r"m\.safetensors"):
            load_policy(path)

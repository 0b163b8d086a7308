"""Batches and neighbours from actors: the same bits as from this process, whatever becomes of the actors."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import mepol
from mepol import neighbours
from mepol.algorithm.batch import Batch
from mepol.cluster.connection import connected
from mepol.cluster.crew import Crew
from mepol.cluster.sampler import RaySampler
from mepol.envs.make import Environments, make_env
from mepol.errors import ConfigError, EnvironmentFault, MepolWarning
from mepol.neighbours import nearest
from mepol.sampling.collect import Rows, collect, collecting
from mepol.sampling.turns import run_through


def seed() -> np.random.SeedSequence:
    """The same each time: one that was drawn from is another."""
    return np.random.SeedSequence(7, spawn_key=(1, 2))


def same(a: Batch, b: Batch) -> bool:
    return all(np.array_equal(getattr(a, n), getattr(b, n)) for n in ("states", "actions", "lengths"))


def acting_in(env: Any, correlation: float = 0.0) -> mepol.GaussianPolicy:
    sizes = env.single_observation_space.shape[0], env.single_action_space.shape[0]
    policy = mepol.GaussianPolicy(*sizes, (32, 32), correlation)
    policy.initialise(np.random.default_rng(0), log_std=-0.5)
    return policy


# --- shards, without any cluster --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "correlation", "limit"),
    [
        ("mepol/GridWorld-v0", 0.0, 0.0),
        ("mepol/MountainCar-v0", 0.8, 0.0),
        ("mepol/GridWorld200-v0", 0.0, 0.0),
        ("mepol/Ant-v0", 0.0, 0.0),
        ("mepol/Ant-v0", 0.7, 30.0),
        ("Pendulum-v1", 0.0, 0.0),
        ("Pendulum-v1", 0.5, 0.0),
    ],
)
def test_shards_of_any_number_laid_together_are_the_batch(env_id: str, correlation: float, limit: float) -> None:
    m, steps = 23, 12
    env = make_env(env_id, m)
    policy = acting_in(env, correlation)
    whole = collect(policy, env, steps, seed=seed(), time_limit=limit)
    for count in (2, 3, 7, m):  # 23: a row each
        found = []
        for rows in Rows.shards(m, count):
            part = make_env(env_id, rows.stop - rows.start)
            found.append(run_through(collecting(policy, part, steps, rows, seed=seed(), time_limit=limit))[0])
            part.close()
        parts = [np.concatenate([getattr(b, n) for b in found]) for n in ("states", "actions", "lengths")]
        assert same(whole, Batch(*parts)), count


# --- on the cluster ---------------------------------------------------------------------------------------------------


def gate(folder: Path, call: int) -> None:
    """In the environments below: says that the call was reached, then waits for a file `open`, if there is a `gate`."""
    if (folder / f"gate-{call}").exists():
        (folder / f"pid-{os.getpid()}").touch()
        until = time.monotonic() + 60
        while not (folder / "open").exists() and time.monotonic() < until:
            time.sleep(0.02)


class Gated(gymnasium.Env[Any, Any]):
    """A random walk that can be held up at its fifth step."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))

    def __init__(self, folder: str) -> None:
        self._folder, self._steps = Path(folder), 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._at, self._steps = self.np_random.standard_normal(2), 0
        return self._at.astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        gate(self._folder, self._steps)
        self._at = self._at + action + 0.1 * self.np_random.standard_normal(2)
        return self._at.astype(np.float32), 0.0, False, False, {}


@pytest.fixture
def sampler(ray: Any) -> Iterator[RaySampler]:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # no worker finds this file
    with RaySampler(2) as sampler:
        yield sampler


def test_a_batch_and_a_search_are_those_of_this_process(sampler: RaySampler, monkeypatch: pytest.MonkeyPatch) -> None:
    with Environments("mepol/GridWorld-v0") as environments:
        policy = acting_in(environments.of(11))
        here = collect(policy, environments.of(11), 40, seed=seed())
        assert same(here, sampler.collect(policy, environments, 11, 40, seed=seed()))
        assert same(here, sampler.collect(policy, environments, 11, 40, seed=seed()))  # its environments forget
    rng = np.random.default_rng(3)
    monkeypatch.setattr(neighbours, "POOL_LEAST", 100)
    for shape, k in (((601, 2), 5), ((601, 120), 3)):  # by the tree, and by all distances
        points = rng.standard_normal(shape)
        for found, true in zip(nearest(points, k, sampler), nearest(points, k, 1), strict=True):
            assert np.array_equal(found, true)
    assert sampler.crew.map(len, (1, 2, 3), []) == []


def test_an_actor_that_is_killed_in_an_epoch_is_replaced_and_the_batch_is_the_same(
    sampler: RaySampler, tmp_path: Path
) -> None:
    with Environments(Gated, kwargs={"folder": str(tmp_path)}) as environments:
        policy = acting_in(environments.of(4))
        here = collect(policy, environments.of(4), 8, seed=seed())
        (tmp_path / "gate-5").touch()

        def kill() -> None:
            while len(pids := list(tmp_path.glob("pid-*"))) < 2:
                time.sleep(0.05)
            os.kill(int(pids[0].name[4:]), signal.SIGKILL)
            (tmp_path / "open").touch()

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.warns(MepolWarning, match="a worker was lost and is replaced"):
            found = sampler.collect(policy, environments, 4, 8, seed=seed())
        killer.join()
    assert same(here, found)
    assert len(list(tmp_path.glob("pid-*"))) >= 3  # two, and the one that drew the shard again


def test_what_an_environment_does_wrong_is_told_as_here_and_a_hanging_one_is_bounded(
    sampler: RaySampler, tmp_path: Path
) -> None:
    with Environments(Gated, kwargs={"folder": str(tmp_path)}, time_limit=1.0) as environments:
        policy = acting_in(environments.of(4))
        (tmp_path / "gate-5").touch()
        with pytest.raises(EnvironmentFault, match="step 4 took longer than the time limit of 1 s"):
            sampler.collect(policy, environments, 4, 8, seed=seed())


def test_a_run_with_a_sampler_is_the_run_without_one(ray: Any, tmp_path: Path) -> None:
    settings = {"epochs": 2, "horizon": 40, "trajectories": 5, "eps": 1e-12, "progress": False}
    small = {"hidden": (8,), "zero_mean_steps": 2, "evaluation_trajectories": 4, "k": 4, "max_steps": 2}
    runs = [
        mepol.explore("gridworld", out=tmp_path / name, sampler=sampler, **settings, **small)
        for name, sampler in (("here", None), ("there", mepol.cluster.ray_sampler(2)))
    ]
    for name in ("policy.safetensors", "best.safetensors", "steps.csv", "config.json", "domain.json"):
        assert (runs[0].path / name).read_bytes() == (runs[1].path / name).read_bytes(), name
    np.testing.assert_array_equal(runs[0].metrics["index"], runs[1].metrics["index"])


def test_more_workers_than_cpus_and_clusters_that_are_not_there_are_named(ray: Any) -> None:
    with pytest.raises(ConfigError, match="workers = 3 is not possible: it must be from 1 to the cluster's 2 CPUs"):
        Crew(ray, 3)
    ray.shutdown()
    for address, wrong in (("127.0.0.1:9", "no Ray cluster answers"), ("ray://x:1", "run the command on a node")):
        with pytest.raises(ConfigError, match=wrong), connected(address):
            pass
    with pytest.raises(ConfigError, match="draws within its context"), warnings.catch_warnings():
        RaySampler(1).map(len, [], [slice(0, 1)])

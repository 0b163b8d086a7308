"""Small, quick inputs that every room's tests share."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable
from itertools import count

import numpy as np
import pytest
import torch
from hypothesis import settings

from mepol.algorithm.batch import Batch
from mepol.algorithm.config import AscentConfig, PolicyConfig
from mepol.algorithm.policy import GaussianPolicy
from mepol.exploration.config import EvaluationConfig, ExploreConfig
from mepol.runs.machine import MachineConfig

settings.register_profile("mepol", deadline=None, max_examples=40, derandomize=True, database=None)
settings.load_profile("mepol")
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:  # as in a shell's background: whom a test starts is to hear them
        signal.signal(number, usual)
torch.set_num_threads(1)  # small products are quicker so; runs set their own number


@pytest.fixture(autouse=True)
def _no_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that a test's runs remember are its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state" / str(next(_NUMBERS))))


_NUMBERS = count()

TINY = ExploreConfig(
    env="mepol/GridWorld-v0",
    horizon=60,
    trajectories=4,
    epochs=2,
    seed=7,
    machine=MachineConfig(threads=1),
    ascent=AscentConfig(k=4, learning_rate=1e-4, max_steps=3, eps=1e-15),
    policy=PolicyConfig(hidden=(16, 16), log_std=-1.5, zero_mean_steps=5),
    evaluation=EvaluationConfig(evaluate_every=0, evaluation_trajectories=5, heatmap_axes="x,y"),
)


@pytest.fixture(scope="session")
def tiny() -> Callable[..., ExploreConfig]:
    """A GridWorld run of well under a second; keywords replace settings at any depth."""

    def make(**changes: object) -> ExploreConfig:
        config = TINY
        for room in ("ascent", "policy", "evaluation", "machine"):
            part = getattr(config, room)
            own = {f.name for f in dataclasses.fields(part)} & set(changes)
            config = dataclasses.replace(
                config, **{room: dataclasses.replace(part, **{name: changes.pop(name) for name in own})}
            )
        return dataclasses.replace(config, **changes)

    return make


@pytest.fixture
def make_policy() -> Callable[..., GaussianPolicy]:
    """A seeded policy with small layers."""

    def make(
        state_dim: int = 2,
        action_dim: int = 2,
        hidden: tuple[int, ...] = (16, 16),
        seed: int = 0,
        log_std: float = -0.5,
    ) -> GaussianPolicy:
        policy = GaussianPolicy(state_dim, action_dim, hidden)
        policy.initialise(np.random.default_rng(seed), log_std=log_std)
        return policy

    return make


@pytest.fixture
def random_walks() -> Callable[..., Batch]:
    """Batches of walks whose steps are the actions that `policy` drew; lengths may differ."""

    def make(policy: GaussianPolicy, m: int = 6, horizon: int = 30, seed: int = 0, lengths: object = None) -> Batch:
        rng = np.random.default_rng(seed)
        states = np.zeros((m, horizon + 1, policy.widths[0]))
        actions = np.zeros((m, horizon, policy.widths[-1]), dtype=np.float32)
        states[:, 0] = rng.uniform(-1, 1, (m, policy.widths[0]))
        with torch.no_grad():
            for t in range(horizon):
                mean = policy.mean(torch.from_numpy(states[:, t]).to(policy.log_std.dtype)).numpy()
                actions[:, t] = mean + np.exp(policy.log_std.numpy()) * rng.standard_normal(mean.shape)
                states[:, t + 1] = states[:, t] + 0.2 * np.resize(actions[:, t].T, states[:, t].T.shape).T
        steps = np.full(m, horizon) if lengths is None else np.asarray(lengths)
        return Batch(states, actions, steps.astype(np.int64))

    return make

"""Environments of finitely many states: what is climbed and told is the entropy of the visits, under both rules."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mepol
from mepol.algorithm.batch import Batch
from mepol.cli import main
from mepol.evaluation import discrete_entropy
from mepol.evaluation.measures import measure_states
from mepol.exploration.learner import search
from mepol.exploration.presets import starting_config
from mepol.settings import with_settings

SIZES: dict[str, Any] = {
    **{"horizon": 40, "trajectories": 25, "evaluation_trajectories": 5, "evaluate_every": 0, "hidden": (32, 32)},
    **{"threads": 1, "progress": False},
}


def visits(states: np.ndarray) -> np.ndarray:
    """(M, T+1, S) one-hot states -> (S,) how often each was visited after the start."""
    return states[:, 1:].sum(axis=(0, 1)).astype(np.int64)


@pytest.mark.parametrize(
    ("env", "kwargs", "settings"),
    [
        ("CliffWalking-v1", {}, {"learning_rate": 1e-3}),
        ("FrozenLake-v1", {"is_slippery": False}, {"learning_rate": 1e-3}),
        ("CliffWalking-v1", {}, {"paper_rule": True, "learning_rate": 1e-3, "max_steps": 10, "kl_threshold": 1.0}),
    ],
    ids=["cliff", "lake", "importance"],
)
def test_a_short_run_ends_above_its_start(env: str, kwargs: Any, settings: Any, tmp_path: Path) -> None:
    run = mepol.explore(env, epochs=8, out=tmp_path / "run", env_kwargs=kwargs, **SIZES, **settings)
    assert run.domain.tabular
    assert run.domain.ceiling == pytest.approx(np.log(run.domain.state_dim))
    found = {}
    with run.working(60) as copies:
        for which in ("initial", "last"):
            batch = run.rollout(copies, which=which)
            found[which] = measure_states(batch, run.domain, k=4).index
            assert found[which] == pytest.approx(discrete_entropy(visits(batch.states)), abs=1e-9)
    assert found["initial"] + 0.1 < found["last"] < run.domain.ceiling


def test_weights_of_a_batch_make_the_entropy_of_weighted_visits() -> None:
    """A discount weighs particles: the landscape is then that of the discounted visits."""
    rng = np.random.default_rng(0)
    batch = Batch(np.eye(5)[rng.integers(5, size=(3, 9))], np.zeros((3, 8, 1), np.float32), np.array([8, 5, 8]))
    config = with_settings(starting_config("FrozenLake-v1"), {"k": 4})
    domain = mepol.explore("FrozenLake-v1", epochs=0, env_kwargs={"map_name": "4x4"}, **SIZES).domain
    wide = Batch(np.pad(batch.states, ((0, 0), (0, 0), (0, 11))), batch.actions, batch.lengths)
    prior = wide.discounted(0.8)
    assert prior is not None
    ascent = dataclasses.replace(config.ascent, state_discount=0.8)
    landscape = search(wide, domain, dataclasses.replace(config, ascent=ascent), 1)
    states = wide.states[:, 1:][wide.visited()].argmax(-1)
    mass = np.bincount(states, prior.numpy())
    assert landscape.entropy() == pytest.approx(-(mass[mass > 0] * np.log(mass[mass > 0])).sum())
    worth = landscape.worth()
    np.testing.assert_allclose(worth - worth[0], -np.log(mass[states] / mass[states[0]]), atol=1e-12)


def test_what_a_user_reads_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = ["--horizon", "30", "--trajectories", "4", "--evaluation-trajectories", "4", "--hidden", "8"]
    asked = ["--env-arg", "is_slippery=False", "--epochs", "1", "--threads", "1", "--out", "run"]
    assert main(["explore", "FrozenLake-v1", *sizes, *asked]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert mepol.open("run").config.env_kwargs == {"is_slippery": False}
    assert "observations are one of 16 states: the entropy is that of the visits to them, counted" in said
    assert f"(ceiling {np.log(16):.3f})" in said
    assert "no heatmap: its states are counted, and lie along no coordinate" in said
    assert "left out" not in said
    assert "lie nearer than" not in said
    assert main(["explore", "Blackjack-v1", *sizes, "--epochs", "1", "--out", "cards"]) == 1
    assert "it was played past the end of an episode: --no-ignore-termination cuts" in capsys.readouterr().err

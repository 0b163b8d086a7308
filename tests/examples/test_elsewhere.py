"""What docs/guide/elsewhere.md and the examples of other stacks show is run as it stands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensordict
import torch
from pages import DOCS, python, run_python
from test_examples import load_example

import mepol
from mepol.elsewhere.play import run_episodes

BLOCKS = python((DOCS / "guide" / "elsewhere.md").read_text())
SMALL = {
    **{"horizon": 40, "trajectories": 4, "evaluation_trajectories": 4, "hidden": (16, 16), "k": 4, "eps": 1e-15},
    **{"zero_mean_steps": 5, "max_steps": 2, "threads": 1},
}


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some seconds: it loads Stable-Baselines3, Minari and pandas, and PPO learns twice."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    assert len(BLOCKS) == 6
    names = run_python(BLOCKS, "elsewhere.md")
    assert names["model"].num_timesteps == 2048
    assert names["model"].mepol["noise_correlation"] == 0.5
    assert names["data"].total_steps == len(names["rows"]) == 500
    (carried,) = names["state"]
    assert carried.shape == names["actions"].shape == (3, 1)


@pytest.fixture
def explored(tmp_path: Path) -> mepol.Run:
    return mepol.explore("gridworld", epochs=1, out=tmp_path / "run", progress=False, **SMALL)


def test_stable_baselines3_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run, model = load_example("continue_in_sb3").main(epochs=1, steps=1024, **SMALL)
    assert model.num_timesteps == 1024
    theirs = [layer for layer in model.policy.mlp_extractor.policy_net if isinstance(layer, torch.nn.Linear)]
    weights = [layer.weight.detach().numpy() for layer in theirs]
    ours = [layer.weight.detach().numpy() for layer in run.policy.layers]
    assert [w.shape for w in weights] == [w.shape for w in ours[:-1]]
    moved = np.abs(weights[1] - ours[1]).max()
    assert 0 < moved < 0.1  # it learnt, and from there


def test_plain_torch_goes_on_and_comes_back(explored: mepol.Run, tmp_path: Path) -> None:
    example = load_example("plain_torch_ppo")
    policy = explored.policy
    actor = example.Actor(policy)
    obs = np.random.default_rng(0).uniform(-6, 6, (40, 2)).astype(np.float32)
    with torch.no_grad():
        means = actor(torch.from_numpy(obs)).mean
    np.testing.assert_allclose(means, policy.predict(obs, deterministic=True)[0], atol=1e-5)
    with torch.random.fork_rng(devices=[]):
        learnt, solved = example.main(policy, iterations=2)
        again, _ = example.main(policy, iterations=2)
    assert len(solved) == 2
    assert not torch.equal(learnt.mean.weight, policy.layers[-1].weight)
    assert torch.equal(learnt.mean.weight, again.mean.weight)
    torch.save(learnt.state_dict(), tmp_path / "actor.pt")
    back = mepol.load_policy(tmp_path / "actor.pt")
    with torch.no_grad():
        expected = learnt(torch.from_numpy(obs)).mean
    np.testing.assert_allclose(back.predict(obs, deterministic=True)[0], expected, atol=1e-5)


def test_torchrl_goes_on_with_the_policy_itself(explored: mepol.Run) -> None:
    example, policy = load_example("torchrl_ppo"), explored.policy
    actor = example.actor_of(policy)
    obs = torch.from_numpy(np.random.default_rng(0).uniform(-6, 6, (40, 2)).astype(np.float32))
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        acted = actor(tensordict.TensorDict({"observation": obs}, batch_size=[40]))
        torch.manual_seed(3)
        noise = torch.randn(40, 2)
        expected = policy.responder()(obs.numpy(), noise.numpy())
        log_prob = policy.log_prob(obs, acted["action"])
    np.testing.assert_allclose(acted["action"], expected, atol=1e-5)
    np.testing.assert_allclose(acted["action_log_prob"], log_prob, atol=1e-4)
    before = policy.layers[-1].weight.detach().clone()
    with torch.random.fork_rng(devices=[]):
        assert len(example.main(policy, iterations=1, steps=300)) == 1
    assert not torch.equal(policy.layers[-1].weight, before)  # it learnt, in the policy itself


def test_a_task_is_learnt_from_data_alone(explored: mepol.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipeline alone, in seconds: what it learns is in docs/results/curriculum-and-reuse.md."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    example, table = load_example("offline_goal"), tmp_path / "results" / "found.csv"
    sizes = {"steps": 200, "updates": 2, "policy_updates": 2, "episodes": 2}
    rows = example.main(run=str(explored.path), out=table, **sizes)
    assert [row[:4] for row in rows] == [("grid-goal1", data, 0, 200) for data in ("explorer", "random")]
    assert len(table.read_text().splitlines()) == 3
    data = example.collected(explored, "grid-goal1", 200, 0)
    first = next(iter(run_episodes(explored, 200, seed=0)))[0]
    np.testing.assert_allclose(data["next_observation"][: len(first)], first.observations[1:], atol=1e-5)


def test_transitions_reach_the_learner_as_they_are() -> None:
    """Actions of the data are in the environment's units (+-0.2), the learner's in [-1, 1]; only a goal is an end."""
    example = load_example("offline_goal")
    rng = np.random.default_rng(0)
    data = {
        **{name: rng.uniform(-6, 6, (5, 2)).astype(np.float32) for name in ("observation", "next_observation")},
        "action": rng.uniform(-0.2, 0.2, (5, 2)).astype(np.float32),
        "reward": np.array([[0], [0], [1], [0], [0]], dtype=np.float32),
        "terminated": np.array([[0], [0], [1], [0], [0]], dtype=np.float32),
        "truncated": np.array([[0], [0], [0], [0], [1]], dtype=np.float32),
    }
    low, high = np.full(2, -0.2, np.float32), np.full(2, 0.2, np.float32)
    scale = example.Scale(np.array([1.0, 2.0]), np.array([3.0, 4.0]), low, high, bands=2)
    rows = example.transitions(data, scale)
    np.testing.assert_allclose(rows["action"], data["action"] / 0.2, atol=1e-6)
    np.testing.assert_allclose(scale.actions(rows["action"]), data["action"], atol=1e-6)
    np.testing.assert_allclose(scale.actions(torch.full((1, 2), 7.0)), high[None])
    for place, states in (("observation", "observation"), (("next", "observation"), "next_observation")):
        plain = (data[states] - [1.0, 2.0]) / [3.0, 4.0]
        waves = [wave(turn * plain) for turn in (np.pi / 2, np.pi) for wave in (np.sin, np.cos)]
        np.testing.assert_allclose(rows[place], np.hstack([plain, *waves]), atol=1e-5)
    np.testing.assert_array_equal(rows["next", "reward"], data["reward"])
    np.testing.assert_array_equal(rows["next", "terminated"], data["terminated"] > 0)
    np.testing.assert_array_equal(rows["next", "done"], data["terminated"] > 0)


def test_the_learner_prefers_steps_that_led_to_the_goal() -> None:
    """On a line that ends at 1, half of all steps go left and half right, and the goal is on the right alone."""
    example = load_example("offline_goal")
    rng = np.random.default_rng(0)
    action = rng.choice([-1.0, 1.0], (2000, 1))
    state = rng.uniform(-1, 1, (2000, 1))
    after = np.maximum(state + 0.2 * action, -1)
    end = after >= 1
    data = {"observation": state, "action": action, "next_observation": after, "reward": end, "terminated": end}
    scale = example.Scale(np.zeros(1), np.ones(1), -np.ones(1, np.float32), np.ones(1, np.float32), bands=0)
    rows = example.transitions({name: column.astype(np.float32) for name, column in data.items()}, scale)
    with torch.random.fork_rng():
        actor = example.learnt(rows, example.SETTINGS["grid-goal1"], updates=300, policy_updates=100, seed=0)
    seen = tensordict.TensorDict({"observation": torch.linspace(-0.5, 0.9, 8)[:, None]}, batch_size=[8])
    with torch.no_grad():
        assert (actor.get_dist(seen).mean > 0.3).all()


def test_a_span_leads_as_far_as_its_episode() -> None:
    """Two episodes of 4 and 3 steps, of which the second ends in the goal; spans of 3."""
    state = np.array([[0], [1], [2], [3], [10], [11], [12]], dtype=np.float32)
    end = np.array([[0], [0], [0], [0], [0], [0], [1]], dtype=np.float32)
    step = np.array([[0], [1], [2], [3], [0], [1], [2]], dtype=np.float32)
    data = {"observation": state, "action": -state, "next_observation": state + 1, "reward": end, "terminated": end}
    found = load_example("offline_goal").spans({**data, "step": step}, 3)
    assert found["observation"][:, 0].tolist() == [0, 1, 10, 11, 12]
    assert found["action"][:, 0].tolist() == [0, -1, -10, -11, -12]
    assert found["next_observation"][:, 0].tolist() == [3, 4, 13, 13, 13]
    assert found["reward"][:, 0].tolist() == found["terminated"][:, 0].tolist() == [0, 0, 1, 1, 1]

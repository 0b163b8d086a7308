"""What is collected is what the policy did, read back by the other libraries themselves."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium
import numpy as np
import pandas
import pyarrow.parquet
import pytest

import mepol
from mepol.algorithm.batch import Batch
from mepol.cli import main
from mepol.elsewhere import Episode, episodes_of, goal_rewards, relabelled
from mepol.elsewhere.dataset import FORMATS, write_dataset
from mepol.elsewhere.play import run_episodes
from mepol.errors import ConfigError, EnvironmentFault, MepolError, RunError

minari = pytest.importorskip("minari")


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.chdir(tmp_path)


def flat(run, steps, **options):
    return [episode for episodes in run_episodes(run, steps, **options) for episode in episodes]


def away(states):
    """A walk from GridWorld's corner (-6, -6) meets it at times."""
    return states[:, 0] > -5.5


def test_minari_reads_back_what_was_played(grid_path, grid, capsys):
    assert main(["collect", str(grid_path), "--steps", "430", "--out", "mepol/gridworld/explore-v0"]) == 0
    assert "430 steps in mepol/gridworld/explore-v0" in capsys.readouterr().out
    data = minari.load_dataset("mepol/gridworld/explore-v0")
    assert (data.total_steps, data.total_episodes) == (430, 15)  # 14 of 30 steps and one of 10
    for found, played in zip(data.iterate_episodes(), flat(grid, 430), strict=True):
        np.testing.assert_array_equal(found.observations, played.observations)
        np.testing.assert_array_equal(found.actions, played.actions)
        assert not found.rewards.any()
        assert not found.terminations.any()
        assert found.truncations.tolist() == [False] * (len(played) - 1) + [True]
    assert "Rewards are all 0" in data.storage.metadata["description"]
    env = data.recover_environment()
    assert env.spec.id == "mepol/GridWorld-v0"
    assert env.action_space == data.action_space
    assert data.action_space.contains(data[0].actions[0])


def test_the_recovered_environment_repeats_the_data(pendulum):
    """In [-1, 1], where the torque is [-2, 2]: the environment that Minari makes again has these units."""
    write_dataset(pendulum, "pendulum/explore-v0", 30)
    data = minari.load_dataset("pendulum/explore-v0")
    episode, env = data[0], data.recover_environment()
    assert (env.action_space.low, env.action_space.high) == (-1, 1)
    env.reset(seed=0)
    cosine, sine, speed = episode.observations[0]
    env.unwrapped.state = np.array([np.arctan2(sine, cosine), speed], dtype=np.float64)
    replayed = [env.step(action)[0] for action in episode.actions]
    np.testing.assert_allclose(replayed, episode.observations[1:], atol=1e-3)
    assert "[-1, 1]" in data.storage.metadata["description"]


def test_parquet_has_a_row_for_each_step(grid):
    assert write_dataset(grid, "rows", 430, format="parquet") == "rows"
    table = pandas.read_parquet("rows")
    played = flat(grid, 430)
    assert len(table) == 430
    assert table["episode"].tolist() == np.repeat(range(15), [len(e) for e in played]).tolist()
    np.testing.assert_array_equal(np.stack(table["observation"]), np.concatenate([e.observations[:-1] for e in played]))
    np.testing.assert_array_equal(
        np.stack(table["next_observation"]), np.concatenate([e.observations[1:] for e in played])
    )
    np.testing.assert_array_equal(np.stack(table["action"]), np.concatenate([e.actions for e in played]))
    assert table["truncated"].sum() == 15
    about = json.loads(pyarrow.parquet.read_schema("rows/part-00000.parquet").metadata[b"mepol"])
    assert about["observation_names"] == ["x", "y"]


def test_more_steps_go_on_where_fewer_end_and_seeds_differ(grid):
    short, long, other = flat(grid, 100), flat(grid, 400), flat(grid, 100, seed=1)
    for few, many in zip(short, long, strict=False):
        np.testing.assert_array_equal(few.actions, many.actions[: len(few)])
    assert sum(map(len, short)) == 100
    assert not np.array_equal(short[0].actions, other[0].actions)
    initial = flat(grid, 30, which="initial")
    assert not np.array_equal(initial[0].actions, short[0].actions)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_goal_gives_the_rewards(kind, grid):
    write_dataset(grid, "goal/away-v0", 300, format=kind, goal=away)
    if kind == "minari":
        data = minari.load_dataset("goal/away-v0")
        assert "the goal away" in data.storage.metadata["description"]
        parts = [(e.observations, e.rewards, e.terminations, e.truncations) for e in data.iterate_episodes()]
    else:
        parts = []
        for _, rows in pandas.read_parquet("goal/away-v0").groupby("episode"):
            states = np.stack([*rows["observation"], rows["next_observation"].iloc[-1]])
            parts.append((states, *(rows[n].to_numpy() for n in ("reward", "terminated", "truncated"))))
    assert sum(len(rewards) for _, rewards, *_ in parts) == 300
    solved = 0
    for states, rewards, terminated, truncated in parts:
        met = states[1:, 0] > -5.5
        assert not met[:-1].any()  # the episode ends where the goal is first met
        np.testing.assert_array_equal(rewards, met)
        np.testing.assert_array_equal(terminated, met)
        assert truncated[-1] != terminated[-1]
        solved += int(met[-1])
    assert 0 < solved < len(parts)


def test_relabelling_by_hand():
    states = np.array([[0.0], [1.0], [2.0], [3.0]])
    episode = Episode(states, np.zeros((3, 1), np.float32), np.zeros(3))
    found = relabelled(episode, lambda s: s[:, 0] >= 2)
    assert (found.rewards.tolist(), found.terminated, len(found.observations)) == ([0, 1], True, 3)
    never = relabelled(episode, lambda s: s[:, 0] > 9)
    assert (never.rewards.tolist(), never.terminated) == ([0, 0, 0], False)
    assert goal_rewards(states, lambda s: s[:, 0] == 0).tolist() == [0, 0, 0]  # the start is nobody's reward
    with pytest.raises(EnvironmentFault, match="truth values"):
        goal_rewards(states, lambda s: s[:, 0])
    assert found.first(1).terminated is False


def test_episodes_of_a_batch_have_their_own_lengths_and_clipped_actions():
    batch = Batch(np.arange(8.0).reshape(2, 4, 1), np.full((2, 3, 1), 5.0, np.float32), np.array([3, 1]))
    first, second = episodes_of(batch, -1, 1)
    assert (len(first), len(second), second.observations.tolist()) == (3, 1, [[4.0], [5.0]])
    assert first.actions.max() == 1


@pytest.mark.parametrize("kind", FORMATS)
def test_nothing_is_overwritten(kind, grid_path, grid, capsys):
    write_dataset(grid, "some/data-v0", 30, format=kind)
    arguments = ["collect", str(grid_path), "--steps", "30", "--out", "some/data-v0", "--format", kind]
    assert main(arguments) == 1
    assert "is there already" in capsys.readouterr().err


def test_what_is_wrong_is_told_before_anything_is_played(grid):
    for out in ("no id", "../../up-v0", "/etc/x-v0", "a//b-v0", "grid", "a/b-v0"):
        with pytest.raises(ConfigError, match=r"is no id of a Minari dataset: write NAMESPACE/ENV/NAME-v0"):
            write_dataset(grid, out, 10)
    with pytest.raises(ConfigError, match="is one of 'mepol/Ant-v0', and the run is in 'mepol/GridWorld-v0'"):
        write_dataset(grid, "a-v0", 10, goal="ant-jump")
    with pytest.raises(ConfigError, match="no task called 'nothing'"):
        write_dataset(grid, "a-v0", 10, goal="nothing")
    with pytest.raises(ConfigError, match="minari, parquet"):
        write_dataset(grid, "a-v0", 10, format="csv")
    Path("taken").touch()
    with pytest.raises(RunError, match="there already"):
        write_dataset(grid, "taken", 10, format="parquet")
    assert [path.name for path in Path().iterdir()] == ["taken"]


def test_who_stops_it_keeps_what_was_finished(grid):
    def stop(done, total):
        if done >= 600:
            raise KeyboardInterrupt

    with pytest.raises(MepolError, match="interrupted: 600 of 3000 steps are in part-v0"):
        write_dataset(grid, "part-v0", 3000, progress=stop)
    assert minari.load_dataset("part-v0").total_steps == 600


def test_an_environment_that_nobody_can_make_again_is_left_out(tmp_path_factory):
    class Own(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float32)
        action_space = gymnasium.spaces.Box(-3, 3, (2,), np.float32)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.x = self.np_random.normal(size=2).astype(np.float32)
            return self.x.copy(), {}

        def step(self, action):
            self.x = np.clip(self.x + 0.1 * action, -9, 9).astype(np.float32)
            return self.x.copy(), 0.0, False, False, {}

    settings = {"horizon": 20, "trajectories": 4, "hidden": (8,), "k": 3, "progress": False, "threads": 1}
    run = mepol.explore(Own, epochs=0, out=tmp_path_factory.mktemp("own") / "run", **settings)
    write_dataset(run, "own/explore-v0", 40)
    data = minari.load_dataset("own/explore-v0")
    assert data.env_spec is None
    assert data.action_space == gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    assert data[0].observations.dtype == np.float32


def test_discrete_actions_are_whole_numbers_in_both_formats(cart):
    write_dataset(cart, "cart/explore-v0", 70)
    data, played = minari.load_dataset("cart/explore-v0"), flat(cart, 70)
    assert data.action_space == gymnasium.spaces.Discrete(2)
    for found, truth in zip(data.iterate_episodes(), played, strict=True):
        assert found.actions.dtype.kind == "i"
        np.testing.assert_array_equal(found.actions, truth.actions[:, 0])
    assert "whole numbers from 0 to 1" in data.storage.metadata["description"]
    env, episode = data.recover_environment(), data[0]
    env.reset(seed=0)
    env.unwrapped.state = episode.observations[0].astype(np.float64)
    replayed = [env.step(action)[0] for action in episode.actions]
    np.testing.assert_allclose(replayed, episode.observations[1:], atol=1e-4)
    write_dataset(cart, "rows", 70, format="parquet")
    table = pandas.read_parquet("rows")
    assert table["action"].dtype == np.int64
    np.testing.assert_array_equal(table["action"], np.concatenate([e.actions[:, 0] for e in played]))

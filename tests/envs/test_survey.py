"""What random play shows, against worlds in which it is known."""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

import mepol
from mepol.cli import main
from mepol.envs.domain import UNBOUNDED, Domain
from mepol.envs.layout import Asked
from mepol.envs.make import make_env
from mepol.envs.survey import Survey, listed, propose_features
from mepol.errors import ConfigError

RNG = np.random.default_rng(0)
ANGLE = RNG.uniform(-3, 3, (4, 101))
STATES = np.stack(
    [
        RNG.normal(size=(4, 101)),  # 0 moves
        np.full((4, 101), 2.5),  # 1 constant
        np.repeat(RNG.normal(size=(4, 1)), 101, axis=1),  # 2 set at the start
        np.cos(ANGLE),  # 3 and 5: of one angle
        np.zeros((4, 101)),
        np.sin(ANGLE),
    ],
    axis=-1,
)
STATES[..., 4] = 7.0 - 3.0 * STATES[..., 0]  # 4 follows 0
NAMES = ("a", "b", "c", "d", "e", "f")


def test_what_stands_still_or_repeats_is_left_out_and_angles_are_found() -> None:
    survey = Survey(STATES)
    assert np.flatnonzero(survey.constant).tolist() == [1]
    assert np.flatnonzero(survey.fixed).tolist() == [2]
    assert survey.copies([0, 3, 4, 5]) == {4: 0}
    assert survey.angles([0, 3, 5]) == ((3, 5),)
    proposal = propose_features(survey, NAMES)
    assert proposal.features == (0, (3, 5))
    text = " | ".join(proposal.notes)
    assert "left out of the entropy: b, constant" in text
    assert "left out of the entropy: c, set at the start" in text
    assert "e follows a" in text
    assert "taken as angles: d and f" in text


def test_noise_is_no_copy_and_a_square_no_circle() -> None:
    states = RNG.normal(size=(5, 50, 3))
    states[..., 2] = states[..., 0] + 1e-3 * RNG.normal(size=(5, 50))
    survey = Survey(states)
    assert survey.copies([0, 1, 2]) == {}
    assert Survey(RNG.uniform(-1, 1, (5, 50, 2))).angles([0, 1]) == ()


def test_a_quaternion_is_found_where_it_is() -> None:
    four = RNG.normal(size=(3, 40, 4))
    four /= np.linalg.norm(four, axis=-1, keepdims=True)
    survey = Survey(np.concatenate([RNG.normal(size=(3, 40, 2)), four], axis=-1))
    assert survey.quaternions(range(6)) == ((2, 3, 4, 5),)


@pytest.mark.parametrize(("true", "inside"), [(1, 3), (2, 3), (3, 3), (2, 5)])
def test_the_dimension_of_a_flat_sheet(true: int, inside: int) -> None:
    sheet = np.random.default_rng(1).uniform(size=(10, 200, true))
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(inside, inside)))[0]
    survey = Survey(np.concatenate([sheet, np.zeros((10, 200, inside - true))], axis=-1) @ turn)
    assert survey.dimension(survey.states) == pytest.approx(true, rel=0.15)


def test_reach_counts_moves() -> None:
    steps = np.cumsum(np.full((2, 11), 0.5), axis=1)  # eleven places, half a unit apart
    there_and_back = np.tile(np.array([0.0, 1.0]), 6)[:11] * np.ones((2, 1))
    survey = Survey(np.stack([steps, there_and_back, np.ones((2, 11))], axis=-1))
    assert survey.reach.tolist() == [10.0, 1.0, 0.0]


def test_neighbours_are_listed_as_ranges() -> None:
    assert listed([1], NAMES) == "b"
    assert listed([0, 1, 2, 4], NAMES) == "a to c, e (4 coordinates)"


def test_only_what_is_left_open_needs_a_survey() -> None:
    assert not Asked().needs_survey
    assert not Asked(features="x,y", scale_features="bounds").needs_survey
    for open_choice in ({"features": "auto"}, {"scale_features": "spread"}, {"coinciding": "floor"}):
        assert Asked(**open_choice).needs_survey  # type: ignore[arg-type]


class Room(gymnasium.Env[Any, Any]):
    """A point in a room of walls that it sticks to, beside a clock that stands and a speed in other units."""

    feature_names = ("x", "y", "clock", "speed")
    observation_space = Box(np.array([0, 0, 0, -np.inf]), np.array([4, 2, 9, np.inf]), dtype=np.float64)
    action_space = Box(-3.0, 7.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at, self.speed = np.array([1.0, 1.0]), 0.0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        before = self.at
        self.at = np.clip(before + 2.0 * (action - 2.0) / 5.0, 0.0, [4.0, 2.0])
        self.speed = 1e4 * float(np.linalg.norm(self.at - before))
        return self._seen(), 0.0, False, False, {}

    def _seen(self) -> Any:
        return np.array([*self.at, 3.0, self.speed])


def test_an_environment_that_nobody_described_explores_without_a_flag(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = ["explore", f"{__file__}:Room", "--epochs", "2", "--horizon", "40", "--evaluation-trajectories", "10"]
    assert main([*argv, "--out", "room"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "left out of the entropy: clock, constant in random play" in said
    assert "speed spreads" in said
    monkeypatch.setenv("MEPOL_MODULES", __file__)
    run = mepol.open("room")
    domain = json.loads((tmp_path / "room" / "domain.json").read_text())
    assert domain["features"] == [0, 1, 3]
    assert 0 < domain["floor"] < 1e-3
    assert run.domain.widths[2] > 30 * run.domain.widths[0]
    assert run.domain.grid is not None
    assert run.metrics["coinciding"][:-1].max() > 0  # it sticks to corners
    assert np.isfinite(run.metrics["index"][[0, -1]]).all()


def test_the_paper_s_rule_is_one_word_away() -> None:
    from mepol.exploration.presets import starting_config

    plain, paper = starting_config("Pendulum-v1"), starting_config("Pendulum-v1", paper_rule=True)
    assert (plain.ascent.rule, paper.ascent.rule) == ("advantage", "importance")
    assert plain.horizon == paper.horizon == 200
    assert plain.features == paper.features == "auto"
    assert starting_config("Pendulum-v1", quick=True) == plain
    with pytest.raises(ConfigError, match="exclude each other"):
        starting_config("Pendulum-v1", quick=True, paper_rule=True)


def test_every_seed_sees_the_same_survey(tmp_path: Any) -> None:
    settings: dict[str, Any] = {"epochs": 0, "horizon": 30, "evaluation_trajectories": 4, "progress": False}
    runs = [mepol.explore(Room, seed=s, out=tmp_path / str(s), **settings) for s in (0, 1)]
    assert (runs[0].path / "domain.json").read_text() == (runs[1].path / "domain.json").read_text()


# --- finite observations, ceilings, one coordinate ----------------------------------------------------------------

AUTO: dict[str, Any] = dict.fromkeys(("features", "scale_features", "heatmap_axes"), "auto") | {"coinciding": "floor"}


def domain_of(observations: Any, actions: Any = None, rng: Any = None, **asked: Any) -> Domain:
    """The domain of a world with these spaces, of which `rng` shows samples, or without it the first alone."""

    class World(gymnasium.Env[Any, Any]):
        observation_space, action_space = observations, Box(-1.0, 1.0, (1,)) if actions is None else actions

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.observation_space.seed(seed)
            self.shown = self.observation_space.sample()
            return self.shown, {}

        def step(self, action: Any) -> Any:
            return (self.shown if rng is None else self.observation_space.sample()), 0.0, False, False, {}

    env = make_env(World, 5)
    states = [env.reset(seed=[1, 1, 1, 1, 1])[0]]
    states += [env.step(np.zeros((5, 1)))[0] for _ in range(20)]
    return Domain.of(env, name="World", survey=Survey(np.stack(states, axis=1).astype(float)), **(AUTO | asked))


@pytest.mark.parametrize(
    ("space", "count", "axes"),
    [
        (Discrete(30), 30, None),
        (Tuple((Discrete(32), Discrete(11), Discrete(2))), 704, None),
        (MultiDiscrete([7, 9]), 63, (0, 1)),
        (MultiBinary(3), 8, (0, 1)),
        (Box(0, 4, (2,), np.int64), 25, (0, 1)),
        (Dict({"a": Discrete(3), "b": MultiDiscrete([5])}), 15, (3, 3)),  # a line over b
    ],
)
def test_states_that_are_finite_are_counted_and_none_is_left_out(space: Any, count: int, axes: Any) -> None:
    domain = domain_of(space)  # of which random play shows one alone
    assert domain.tabular
    assert domain.features == tuple(range(domain.state_dim))
    assert domain.ceiling == pytest.approx(np.log(count))
    assert (domain.grid and domain.grid.axes) == axes
    assert domain.notes == (
        f"observations are one of {count} states: the entropy is that of the visits to them, counted, "
        f"at most ln {count} = {np.log(count):.3f} nats",
    )
    again = Domain.from_json(domain.to_json())
    assert again.tabular
    points = np.random.default_rng(0).integers(0, 2, (50, domain.state_dim)).astype(float)
    assert again.near(points, 4, eps=1.0).log_volume.tolist() == domain.near(points, 4).log_volume.tolist()
    some = domain_of(space, features=domain.names[0])
    assert (some.tabular, some.features, some.ceiling) == (True, (0,), None)


def test_what_is_not_finite_is_measured_by_distances_and_says_no_ceiling_of_truth_values() -> None:
    rng = np.random.default_rng(0)
    assert not domain_of(Discrete(4), coinciding="refuse", features="all").tabular  # the paper's rule
    assert not domain_of(MultiBinary(14), rng=rng).tabular  # more states than are counted
    assert not domain_of(Discrete(4), features=lambda states: states[:, :1]).tabular
    mixed = domain_of(Dict({"at": Box(-1.0, 1.0, (2,)), "room": Discrete(3)}), rng=rng)
    assert (mixed.tabular, mixed.ceiling) == (False, None)
    assert domain_of(Dict({"at": Box(-1.0, 1.0, (2,))}), rng=rng).ceiling == pytest.approx(np.log(4))
    assert domain_of(Box(0, 10**5, (2,), np.int64), rng=rng).ceiling is None
    assert '"tabular"' not in mixed.to_json()  # as files were before


def test_one_coordinate_is_a_line_and_what_nobody_knows_is_said() -> None:
    rng = np.random.default_rng(0)
    grid = domain_of(Box(-5.0, 3.0, (1,)), rng=rng, heatmap_bins=(8, 20)).grid
    assert grid is not None
    assert (grid.line, grid.axes, grid.low[0], grid.high[0], grid.bins) == (True, (0, 0), -5.0, 3.0, (8, 1))
    still = domain_of(Box(-5.0, 5.0, (2,)))
    assert "no coordinate moved in random play: there is no entropy to raise" in still.notes
    for free in (Box(-np.inf, np.inf, (1,)), Box(0.0, np.inf, (1,))):
        assert UNBOUNDED in domain_of(Box(-5.0, 5.0, (2,)), free, rng=rng).notes
    assert UNBOUNDED not in domain_of(Box(-5.0, 5.0, (2,)), rng=rng).notes

"""Several environments: one of them is plain MEPOL to the bit; drawn, measured, stored and resumed as any run is."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from same import Stopped, assert_same_run, files_of, stop_after, timeless

import mepol
from mepol.algorithm.tail import TailLandscape
from mepol.cli import main
from mepol.errors import ConfigError, EnvironmentFault, RunError
from mepol.exploration.learner import MepolExplorer, search, search_parts
from mepol.exploration.presets import PRESETS
from mepol.exploration.workshop import open_workshop
from mepol.exploration.worlds.files import read_worlds
from mepol.exploration.worlds.start import starting_worlds
from mepol.exploration.worlds.workshop import Worlds, powers
from mepol.runs.streams import Stream, stream
from mepol.settings import with_settings

SMALL: dict[str, Any] = {
    "epochs": 3,
    "horizon": 30,
    "trajectories": 20,
    "k": 4,
    "hidden": (16,),
    "eps": 1e-6,
    "learning_rate": 1e-3,
    "max_steps": 3,
    "zero_mean_steps": 3,
    "evaluation_trajectories": 4,
    "evaluate_every": 2,
    "threads": 1,
    "seed": 5,
    "progress": False,
}
SLOPES = [
    {"name": "north", "env": "mepol/GridWorld-v0", "env_kwargs": {"slope": "north"}, "probability": 0.75},
    {"name": "south", "env": "mepol/GridWorld-v0", "env_kwargs": {"slope": "south"}, "probability": 0.25},
]
ALONE = [{"name": "alone", "env": "mepol/GridWorld-v0", "probability": 1.0}]
OWN = ("config.json", "domain.json", "worlds.csv")  # what a class has of its own; a domain is compared by hand


def rows_of(path: Path) -> list[dict[str, str]]:
    with (path / "worlds.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def sloped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run in two worlds; tests leave it as it is."""
    out = tmp_path_factory.mktemp("worlds") / "run"
    mepol.explore("gridworld", envs=SLOPES, risk=0.35, out=out, **SMALL)
    return out


# --- One environment is the paper's ---------------------------------------------------------------------------------


def test_one_world_at_risk_1_is_mepol_to_the_bit(tmp_path: Path) -> None:
    mepol.explore("gridworld", out=tmp_path / "plain", **SMALL)
    mepol.explore("gridworld", envs=ALONE, risk=1.0, out=tmp_path / "class", **SMALL)
    plain, several = files_of(tmp_path / "plain"), files_of(tmp_path / "class")
    assert plain.pop("domain.json") == several.pop("domain.json")
    assert {name for name in several if name not in plain} == {
        "worlds.csv",
        *(f"heatmaps/world-alone-epoch-0000{n}.csv" for n in (0, 2, 3)),
    }
    for name in [name for name in several if name not in plain and name != "worlds.csv"]:
        (tmp_path / "class" / name).unlink()
    assert_same_run(tmp_path / "plain", tmp_path / "class", settings=False, but=(*OWN, "best.safetensors"))
    best = [mepol.open(tmp_path / name).best.state_dict() for name in ("plain", "class")]
    assert all(torch.equal(best[0][key], best[1][key]) for key in best[0])
    indices = [row["index"] for row in timeless(tmp_path / "plain") if row["index"]]
    assert [row["index"] for row in rows_of(tmp_path / "class")] == indices


# --- What is drawn and climbed --------------------------------------------------------------------------------------


def test_powers_sum_to_what_they_are_of() -> None:
    assert powers(0) == []
    assert powers(13) == [8, 4, 1]
    assert all(sum(powers(n)) == n for n in range(200))


def test_mini_batches_are_from_worlds_drawn_by_their_probabilities() -> None:
    """In a world that slopes by 0.05 a step, an agent that stands still drifts: each trajectory says where it was."""
    config = with_settings(
        starting_worlds(SLOPES, "gridworld"), {"trajectories": 40, "horizon": 3, "k": 4, "world_trajectories": 4}
    )
    counts = []
    with open_workshop(config) as workshop:
        assert isinstance(workshop, Worlds)
        still = _Still()
        for epoch in range(60):
            batch = workshop.collect(still, 40, 3, stream(1, Stream.BATCH, epoch))
            again = workshop.collect(still, 40, 3, stream(1, Stream.BATCH, epoch))
            np.testing.assert_array_equal(batch.states, again.states)
            rise = np.sign(np.round(batch.states[:, 1, 1] - batch.states[:, 0, 1], 6)).reshape(10, 4)
            for mini in rise:  # one that stands against the wall does not move, and says nothing
                assert len(set(mini[mini != 0])) <= 1
            counts.append(int((rise.sum(axis=1) > 0).sum()))
    assert np.mean(counts) == pytest.approx(7.5, abs=4 * np.sqrt(10 * 0.75 * 0.25 / 60))
    assert len(set(counts)) > 3


class _Still:
    def act(self, obs: Any, rng: Any, deterministic: bool = False) -> Any:
        return np.zeros((len(obs), 2), np.float32)


def test_what_is_climbed_is_the_tail_of_the_mini_batches() -> None:
    config = with_settings(starting_worlds(SLOPES, "gridworld"), _settings(risk=0.5))
    with open_workshop(config) as workshop:
        explorer = MepolExplorer(workshop)
        batch = explorer._sample(0)
        landscape = explorer._search(batch)
        assert isinstance(landscape, TailLandscape)
        each = sorted(
            search(batch.part(slice(a, a + 5)), workshop.domain, config, 1).entropy() for a in range(0, 20, 5)
        )
        assert landscape.entropy() == pytest.approx((each[0] + each[1]) / 2, abs=1e-12)
        whole = search_parts(batch, workshop.domain, with_settings(config, {"world_trajectories": 20}), 1)
        assert len(whole) == 1


def _settings(**more: Any) -> dict[str, Any]:
    return {key: value for key, value in {**SMALL, **more}.items() if key != "progress"}


# --- What is measured and kept --------------------------------------------------------------------------------------


def test_each_world_is_measured_and_their_tail_is_the_index(sloped: Path) -> None:
    run = mepol.open(sloped)
    rows, metrics = rows_of(sloped), timeless(sloped)
    assert [(row["epoch"], row["world"]) for row in rows] == [(e, w) for e in "023" for w in ("north", "south")]
    for epoch in (0, 2, 3):
        north, south = (row for row in rows if row["epoch"] == str(epoch))
        low, high = sorted([(float(north["index"]), 0.75), (float(south["index"]), 0.25)])
        share = min(low[1], 0.35) / 0.35
        assert float(metrics[epoch]["index"]) == pytest.approx(share * low[0] + (1 - share) * high[0], abs=1e-12)
        maps = [
            np.loadtxt(sloped / "heatmaps" / f"world-{name}-epoch-0000{epoch}.csv", delimiter=",")
            for name in ("north", "south")
        ]
        assert [int(m.sum()) for m in maps] == [120, 120]
        np.testing.assert_array_equal(sum(maps), run.directory.load_visits(epoch))
    assert "worlds.png" in {path.name for path in run.figures()}
    # A world's line is what a plain run of that world alone measures with the same seed.
    found = run.evaluate(trajectories=4, seed=3)
    for world in SLOPES:
        alone = mepol.evaluate(
            run.policy,
            "gridworld",
            trajectories=4,
            seed=3,
            env_kwargs=world["env_kwargs"],
            horizon=30,
            k=4,
            eps=1e-6,
            threads=1,
        )
        assert found.worlds[world["name"]].evaluation.index == alone.evaluation.index
    assert found.evaluation.particles == 240


def test_the_command_measures_each_world(sloped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(sloped), "--trajectories", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["particles"] == 240
    assert found["particles[south]"] == 120
    assert min(found["index[north]"], found["index[south]"]) <= found["index"]


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(sloped: Path, tmp_path: Path) -> None:
    for turn in (1, 2):
        out = tmp_path / str(turn)
        with pytest.raises(Stopped):
            mepol.explore("gridworld", envs=SLOPES, risk=0.35, out=out, callbacks=[stop_after(turn)], **SMALL)
        if turn == 2:  # as a kill between an evaluation and the next checkpoint leaves it
            with (out / "worlds.csv").open("a") as file:
                file.write("3,north,0.75,1.0,1.0,1.0,5,0.1\n3,sou")
        mepol.resume(out, progress=False)
        drawn = tuple(name for name in files_of(sloped) if name.endswith(".png"))
        assert_same_run(out, sloped, but=drawn)


def test_the_settings_hold_the_class_and_names_in_it_are_not_trusted(sloped: Path, tmp_path: Path) -> None:
    stored = json.loads((sloped / "config.json").read_text())
    assert stored["worlds"]["envs"] == SLOPES
    assert (stored["worlds"]["risk"], stored["env"]) == (0.35, "mepol/GridWorld-v0")
    stored["worlds"]["envs"][1]["env"] = "os:system"
    (tmp_path / "config.json").write_text(json.dumps(stored))
    with pytest.raises(RunError, match="'os:system', which runs code"):
        mepol.open(tmp_path)


def test_a_task_may_start_from_it(sloped: Path, tmp_path: Path) -> None:
    pytest.importorskip("sb3_contrib")
    settings = {"horizon": 30, "trpo.steps": 60, "progress": False, "threads": 1}
    run = mepol.finetune("grid-goal1", init=sloped, iterations=1, out=tmp_path / "task", **settings)
    assert run.metrics["iteration"].tolist() == [0, 1]
    assert torch.equal(run.initial.log_std, mepol.open(sloped).policy.log_std)


def test_rival_baselines_take_it_and_others_say_that_they_do_not(tmp_path: Path) -> None:
    run = mepol.explore("gridworld", envs=SLOPES, explorer="uniform", out=tmp_path / "uniform", **SMALL)
    assert [row["world"] for row in rows_of(run.path)] == ["north", "south"]
    with pytest.raises(ConfigError, match="explorer = rnd is not possible: it must be mepol, random, uniform"):
        mepol.explore("gridworld", envs=SLOPES, explorer="rnd", out=tmp_path / "rnd", **SMALL)


# --- Files and what is wrong with them ------------------------------------------------------------------------------

GOOD = """
[settings]
risk = 0.5
[[world]]
env = "mepol/GridWorld-v0"
probability = 0.5
[[world]]
name = "down"
env = "mepol/GridWorld-v0"
env_kwargs = {slope = "south"}
probability = 0.5
"""


def test_a_file_of_worlds(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(GOOD)
    found = read_worlds(file)
    assert [world["name"] for world in found["envs"]] == ["w1", "down"]
    assert (found["risk"], found["env"], found["env_kwargs"]) == (0.5, "mepol/GridWorld-v0", {})
    alone = starting_worlds(file, None)
    assert (alone.ascent.rule, alone.worlds.risk, alone.trajectories % 5) == ("importance", 0.5, 0)
    quick = starting_worlds(file, None, quick=True)
    assert (quick.ascent.rule, quick.policy.mirror, quick.worlds.risk) == ("importance", True, 0.5)


@pytest.mark.parametrize(
    ("change", "flags", "words"),
    [
        (("", ""), ("--risk", "0"), "risk = 0.0 is not possible: it must be above 0 and at most 1"),
        (("", ""), ("--risk", "1.5"), "risk = 1.5 is not possible: it must be above 0 and at most 1"),
        (("risk = 0.5", "risk = -1.0"), (), "risk = -1.0 is not possible"),
        (("probability = 0.5", "probability = 0.4"), (), "the probabilities of the 2 worlds sum to 0.8"),
        (("probability = 0.5", "probability = -0.5"), (), "probability of w1 = -0.5 is not possible"),
        (("probability = 0.5", "chance = 0.5"), (), "a world has no entry 'chance'"),
        (('name = "down"', 'name = "../up"'), (), "a world's name = ../up is not possible"),
        (('name = "down"', 'name = "w1"'), (), "two worlds are called 'w1'"),
        (("[settings]", "[things]"), (), "no entry 'things'"),
        (("risk", "risc"), (), "no setting 'risc'"),
        (("", ""), ("--rule", "advantage"), "rule = advantage is not possible: it must be importance"),
        (("", ""), ("--trajectories", "22"), "trajectories = 22 is not possible: it must be a multiple of the 5"),
        (("", ""), ("--k", "300", "--horizon", "60"), "k = 300 is not possible: it must be below the 300 particles"),
        (("", ""), ("--policies", "2"), "policies = 2 is not possible: it must be a divisor of"),
        (("", ""), ("--env-arg", "slope=north"), "that of the first world"),
        (
            ('"mepol/GridWorld-v0"\nenv_k', '"mepol/MountainCar-v0"\n#'),
            (),
            "'w1' and 'down' differ in their",
        ),
        (('slope = "south"', 'slope = "down"'), (), "slope = 'down' is not possible: it must be one of flat, north"),
        (("[[world]]", "[[word]]"), (), "no entry 'word'"),
        (("probability", "probability ="), (), "cannot read the environments"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_nothing_is_written(
    change: tuple[str, str], flags: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "two.toml", tmp_path / "run"
    file.write_text(GOOD.replace(*change))
    assert main(["explore", "gridworld", "--envs", str(file), "--epochs", "1", *flags, "--out", str(out)]) in (1, 2)
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
    assert said.count("\n") == 1
    assert not out.exists()


def test_a_share_of_one_environment_needs_several(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["explore", "gridworld", "--risk", "0.5", "--out", str(tmp_path / "run")]) == 2
    assert "it must be 1 with one environment alone" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="explore needs a preset, an environment, or envs"):
        mepol.explore()


def test_actions_of_other_sizes_are_other_spaces() -> None:
    """Two pendulums whose torques differ; in raw units their policies do not mean the same."""
    worlds = [
        {"env": "mepol/MountainCar-v0", "probability": 0.5},
        {"env": "MountainCarContinuous-v0", "probability": 0.5},
    ]
    with (
        pytest.raises(EnvironmentFault, match="'w1' and 'w2' differ in their spaces"),
        open_workshop(with_settings(starting_worlds(worlds, "mountain-car"), {"trajectories": 5, "k": 4})),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "published", "log_std"),
    [
        ("gridworld-slope", (200, 400, 30, 0.35, 150, [0.8, 0.2], (300, 300)), -1.5),
        ("multigrid", (500, 400, 30, 0.1, 50, [0.1] * 10, (300, 300)), -1.5),
        ("ant-mazes", (150, 400, 500, 0.2, 400, [0.8, 0.2], (400, 300)), -0.5),
    ],
)
def test_presets_have_the_published_settings(name: str, published: tuple[Any, ...], log_std: float) -> None:
    """Rate and noise in units of the actions: where moves are larger than the published 0.2, they are, too."""
    config = PRESETS[name].config
    found = (
        *(config.trajectories, config.horizon, config.ascent.k, config.worlds.risk, config.epochs),
        *(config.worlds.probabilities, config.policy.hidden),
    )
    assert found == published
    (larger,) = {world["env_kwargs"].get("max_move", 0.2) / 0.2 for world in config.worlds.envs}
    assert config.ascent.learning_rate == pytest.approx(1e-5 * larger)
    assert config.policy.log_std == pytest.approx(log_std + math.log(larger), abs=0.005)
    assert (config.ascent.kl_threshold, config.worlds.world_trajectories) == (15.0, 5)

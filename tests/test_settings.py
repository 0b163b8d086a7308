"""Settings of both phases: ranges beside fields, changes by name, and JSON that a stranger may have written."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import pytest

from mepol.algorithm.config import AscentConfig, CriticConfig, PolicyConfig
from mepol.errors import ConfigError
from mepol.exploration.config import EvaluationConfig, ExploreConfig
from mepol.exploration.explorers import explorer_kind
from mepol.exploration.maxent.config import MaxEntConfig
from mepol.exploration.presets import PRESETS, starting_config
from mepol.finetuning.config import FinetuneConfig, IntrinsicConfig, PpoConfig, SacConfig, TrpoConfig
from mepol.runs.machine import MACHINE_SETTINGS, MachineConfig
from mepol.settings import (
    above,
    at_least,
    between,
    check,
    describe,
    flat_settings,
    from_json,
    hashable,
    one_of,
    to_json,
    with_settings,
    within,
)

ROOMS = [
    *(AscentConfig, CriticConfig, PolicyConfig, EvaluationConfig, MachineConfig, MaxEntConfig),
    *(TrpoConfig, PpoConfig, SacConfig, IntrinsicConfig),
]
NEEDED = {ExploreConfig: {"env": "x"}, FinetuneConfig: {"task": "grid-goal1"}}
RESULTS = sorted((Path(__file__).parents[1] / "results").rglob("config.json"))


# --- Ranges ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """A config with a field of each kind."""

    whole: Annotated[int, at_least(2, "2: a pair")] = 2
    positive: Annotated[float, above(0)] = 1.0
    capped: Annotated[float, above(0, 1e30)] = 1.0
    inside: Annotated[float, between(0, 1)] = 0.5
    share: Annotated[float, within(0, 1)] = 0.5
    pair: Annotated[tuple[int, int], within(1, 4096)] = (1, 1)
    maybe: Annotated[float, at_least(0)] | None = None
    name: Annotated[str, one_of(["a", "b"])] = "a"
    free: float = 0.0

    def __post_init__(self) -> None:
        check(self)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("whole", 1, "whole = 1 is not possible: it must be at least 2 (2: a pair)"),
        ("positive", 0.0, "positive = 0.0 is not possible: it must be above 0"),
        ("positive", math.inf, "positive = inf is not possible: it must be above 0 and finite"),
        ("positive", math.nan, "positive = nan is not possible: it must be above 0"),
        ("capped", 1e31, "capped = 1e+31 is not possible: it must be above 0 and at most 1e30"),
        ("inside", 1.0, "inside = 1.0 is not possible: it must be between 0 and 1"),
        ("share", 1.5, "share = 1.5 is not possible: it must be from 0 to 1"),
        ("pair", (1, 4097), "pair = (1, 4097) is not possible: it must be from 1 to 4096"),
        ("maybe", -1.0, "maybe = -1.0 is not possible: it must be at least 0"),
        ("name", "c", "name = 'c' is not one of 'a', 'b'"),
        ("free", math.nan, "free = nan is not possible: it must be a finite number"),
        ("free", -math.inf, "free = -inf is not possible: it must be a finite number"),
    ],
)
def test_each_range_refuses_what_lies_outside_in_its_own_words(name: str, value: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Sample(**{name: value})
    assert str(caught.value) == words


def test_what_lies_on_a_limit_is_allowed() -> None:
    Sample(whole=2, capped=1e30, share=1.0, pair=(4096, 1), maybe=0.0, name="b", free=1e300)


def test_a_table_of_names_may_grow() -> None:
    known = ["a"]

    @dataclass(frozen=True)
    class Named:
        name: str = "a"

    Named.__annotations__["name"] = Annotated[str, one_of(known)]
    with pytest.raises(ConfigError, match="'b' is not one of 'a'"):
        check(Named("b"))
    known.append("b")
    check(Named("b"))


@pytest.mark.parametrize("kind", [*ROOMS, *NEEDED])
def test_nan_is_refused_in_every_number_of_every_setting(kind: type) -> None:
    hints = get_type_hints(kind)
    numbers = {"float": math.nan, "float | None": math.nan, "tuple[float, float] | None": (0.0, math.nan)}
    found = 0
    for field in dataclasses.fields(kind):
        text = "float" if hints[field.name] is float else str(hints[field.name])
        if text in numbers:
            found += 1
            with pytest.raises(ConfigError, match=rf"{field.name} = .*nan.* is not possible"):
                kind(**NEEDED.get(kind, {}), **{field.name: numbers[text]})
    assert found


def test_widths_are_bounded_one_by_one_and_in_total() -> None:
    assert PolicyConfig(hidden=(7000, 7000)).hidden == (7000, 7000)
    for hidden, words in {
        (65536, 65536): "at most 5e7 weights, not 4294967296",
        (1,) * 31: "at most 30 layers",
        (65537,): "widths from 1 to 65536",
    }.items():
        for kind in (PolicyConfig, FinetuneConfig):
            with pytest.raises(ConfigError, match=words):
                kind(**NEEDED.get(kind, {}), hidden=hidden)
        with pytest.raises(ConfigError, match=words):
            CriticConfig(critic_hidden=hidden)


def test_a_learner_s_settings_carry_its_name() -> None:
    with pytest.raises(ConfigError, match=r"^trpo\.kl = 0 is not possible: it must be above 0$"):
        TrpoConfig(kl=0)
    with pytest.raises(ConfigError, match=r"^intrinsic\.skills = 0 is not possible: it must be from 1 to 1000$"):
        IntrinsicConfig(skills=0)


# --- By name --------------------------------------------------------------------------------------------------------


def test_settings_of_both_phases_are_changed_by_flat_name() -> None:
    explored = with_settings(ExploreConfig(env="x"), {"k": 7, "threads": 3, "env_kwargs": {"size": 4}})
    assert (explored.ascent.k, explored.machine.threads, explored.env_kwargs) == (7, 3, {"size": 4})
    learnt = with_settings(FinetuneConfig(task="t"), {"trpo.kl": 0.5, "checkpoint_minutes": 2})
    assert (learnt.trpo.kl, learnt.machine.checkpoint_minutes) == (0.5, 2.0)
    with pytest.raises(ConfigError, match=r"no setting 'trpo.kk'; did you mean 'trpo\.kl'\?"):
        with_settings(learnt, {"trpo.kk": 1.0})


def test_an_explorer_brings_its_own_settings_and_takes_them_away() -> None:
    plain = ExploreConfig(env="x")
    assert plain.rival is None
    assert not {"mixture_size", "rival"} & set(flat_settings(plain))
    with pytest.raises(ConfigError, match="no setting 'mixture_size'"):
        with_settings(plain, {"mixture_size": 3})
    rival = with_settings(plain, {"mixture_size": 3, "explorer": "maxent"})
    assert rival.rival == MaxEntConfig(mixture_size=3)
    assert [explorer_kind(c.explorer).length(c) for c in (rival, plain)] == [3, 100]
    assert with_settings(rival, {"trpo_kl": 0.2}).rival == MaxEntConfig(mixture_size=3, trpo_kl=0.2)
    assert with_settings(rival, {"explorer": "uniform"}).rival is None
    assert from_json(ExploreConfig, to_json(rival)) == rival
    with pytest.raises(ConfigError, match="explorer = 'nobody' is not one of 'mepol', 'random', 'uniform', 'maxent'"):
        with_settings(plain, {"explorer": "nobody"})
    with pytest.raises(ConfigError, match=r"rival = MaxEntConfig.* None with the explorer mepol"):
        ExploreConfig(env="x", rival=MaxEntConfig())


def test_presets_carry_the_rival_s_settings() -> None:
    assert starting_config("mountain-car", explorer="maxent").rival.mixture_size == 60
    assert starting_config("Pendulum-v1", explorer="maxent").rival == MaxEntConfig()
    assert starting_config("gridworld", quick=True) == PRESETS["gridworld-fast"].config
    assert starting_config("gridworld-fast", quick=True) == PRESETS["gridworld-fast"].config


def test_a_table_can_be_a_key() -> None:
    assert hashable({"b": [1, {"c": 2}], "a": None}) == (("a", None), ("b", (1, (("c", 2),))))


# --- Stored settings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.parent.name)
def test_settings_stored_by_older_versions_still_open(path: Path) -> None:
    data = json.loads(path.read_text())
    data.pop("run", None)  # the run's own name stands beside its settings
    config: Any = from_json(FinetuneConfig if "task" in data else ExploreConfig, json.dumps(data))
    assert config.machine.threads == data.get("machine", data)["threads"]
    assert from_json(type(config), to_json(config)) == config


def test_there_are_stored_settings_of_both_phases() -> None:
    kinds = {"task" in json.loads(path.read_text()) for path in RESULTS}
    assert (len(RESULTS) >= 14, kinds) == (True, {True, False})


def test_an_older_layout_becomes_today_s() -> None:
    old = {
        "env": "x",
        "threads": 2,
        "env_time_limit": 5,
        "checkpoints": {"checkpoint_epochs": 3, "checkpoint_minutes": 0.5},
        "maxent": {"mixture_size": 4},
    }
    machine = MachineConfig(threads=2, env_time_limit=5.0, checkpoint_epochs=3, checkpoint_minutes=0.5)
    assert from_json(ExploreConfig, json.dumps(old)) == ExploreConfig(env="x", machine=machine, unit_actions=False)
    rival = from_json(ExploreConfig, json.dumps(old | {"explorer": "maxent"}))
    own = MaxEntConfig(mixture_size=4)
    assert rival == ExploreConfig(env="x", machine=machine, unit_actions=False, explorer="maxent", rival=own)
    learnt = from_json(FinetuneConfig, '{"task": "t", "threads": 2, "checkpoint_minutes": 3}')
    assert learnt.machine == MachineConfig(threads=2, checkpoint_minutes=3.0)
    for both in ({"machine": {}, "threads": 1}, {"checkpoints": [1]}, {"threads": "2"}, {"machine": 3}):
        with pytest.raises(ConfigError, match=r"threads|machine"):
            from_json(ExploreConfig, json.dumps({"env": "x"} | both))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"env": "x", "seed": ' + "9" * 5000 + "}", "not JSON"),
        ('{"env": "x", "seed": ' + "9" * 4000 + "}", "larger than any setting"),
        ('{"env": "x", "ceiling": ' + "9" * 400 + "}", "larger than any setting"),
        ('{"env": "x", "ceiling": 1e999}', "ceiling = inf is not possible"),
        ('{"env": "x", "ceiling": NaN}', "ceiling = nan is not possible"),
        ('{"env": "x", "ascent": {"kl_threshold": Infinity}}', "kl_threshold = inf is not possible"),
        (r'{"env": "\udc80"}', "half a character"),
        (r'{"env": "x", "\udc80": 1}', "has no setting"),
        (r'{"env": "x", "env_kwargs": {"a": ["\udc80"]}}', "half a character"),
        (r'{"env": "x", "env_kwargs": {"\udc80": 1}}', "half a character"),
        ('{"env": "x", "env_kwargs": {"a": {"b": -Infinity}}}', "finite"),
        ('{"env": "x", "env_kwargs": {"a": ' + "9" * 4000 + "}}", "cannot be stored"),
        ('{"env": "x", "env_kwargs": {"a": ' + "[" * 900 + "]" * 900 + "}}", "nested at most 16 deep"),
        ('{"env": "x", "env_kwargs": [1]}', "env_kwargs must be an object"),
        ('{"env": "x", "policy": {"hidden": [65536, 65536, 65536]}}', "weights"),
        ('{"env": "x", "explorer": ["maxent"]}', "explorer = .* is not of type str"),
        ('{"env": "x", "explorer": "maxent", "rival": 3}', "rival must be an object"),
        ('{"env": "x", "rival": {}}', "rival = {} is not of type NoneType"),
        ('{"env": "x", "ascent": {"rule": "other"}}', "rule = 'other' is not one of 'importance', 'advantage'"),
    ],
    ids=range(19),
)
def test_what_a_stranger_may_write_is_a_named_error_that_can_be_printed(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        from_json(ExploreConfig, text)
    assert str(caught.value).encode("utf-8")
    assert len(str(caught.value)) < 2000


def test_arguments_of_the_environment_are_stored_and_must_be_plain() -> None:
    config = ExploreConfig(env="x", env_kwargs={"size": [1, 2.5, None, True], "deep": {"name": "ü"}})
    assert from_json(ExploreConfig, to_json(config)) == config
    for value in (object(), math.nan, {1: 2}, "\udc80", b"x"):
        with pytest.raises(ConfigError, match="env_kwargs"):
            ExploreConfig(env="x", env_kwargs={"a": value})


# --- What they are called and mean ----------------------------------------------------------------------------------


def test_a_setting_is_described_by_what_stands_beside_it() -> None:
    rows = {row.name: row for row in describe(starting_config("gridworld"))}
    k, steps, bins = rows["k"], rows["max_steps"], rows["heatmap_bins"]
    assert dataclasses.astuple(steps) == (
        *("max_steps", "int", 30, "at least 1", "Accepted gradient steps per epoch, at most.", "ascent"),
    )
    assert (k.default, k.allowed) == (50, "at least 0 (0: chosen by features and batch)")
    assert (bins.type, bins.allowed, bins.flag) == ("int int", "from 1 to 4096", "--heatmap-bins")
    assert rows["optimiser"].type == "adam|sgd"
    assert {row.name for row in rows.values() if row.group == "machine"} == set(MACHINE_SETTINGS)


@pytest.mark.parametrize("config", [starting_config("ant", explorer="maxent"), FinetuneConfig(task="t")])
def test_every_setting_says_what_it_is(config: Any) -> None:
    rows = describe(config)
    assert [row.name for row in rows] == list(flat_settings(config))
    assert all(row.text.endswith((".", "`")) for row in rows)


def test_zero_threads_are_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    assert (MachineConfig().cores, MachineConfig(threads=2).cores) == (7, 2)

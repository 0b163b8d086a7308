"""A domain says what its environment says, survives JSON unchanged, and a stranger's JSON gives named errors only."""

from __future__ import annotations

import dataclasses
import json
import random
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.vector import SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st

from mepol.algorithm.batch import Batch
from mepol.envs import domain_json
from mepol.envs.coordinates import Grid
from mepol.envs.domain import Domain
from mepol.envs.make import make_env
from mepol.errors import ConfigError, EnvironmentFault, RunError


class Named(gymnasium.Env):
    """Two coordinates, one without an upper end."""

    observation_space = Box(np.array([-1.0, -3.0]), np.array([2.0, np.inf]), dtype=np.float64)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, names: Any = ("height", "speed")) -> None:
        if names is not None:
            self.feature_names = names

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.array([0.5, self.np_random.uniform()]), {}


def named(names: Any = ("height", "speed")) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: Named(names)] * 2)


def same(a: Domain, b: Domain) -> None:
    for field in dataclasses.fields(Domain):
        ours, theirs = getattr(a, field.name), getattr(b, field.name)
        if isinstance(ours, np.ndarray):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
        else:
            assert ours == theirs, field.name


def test_a_domain_says_what_its_environment_says() -> None:
    domain = Domain.of(named(), name="mine", features="speed", heatmap_low=(-1.0, 0.0), heatmap_high=(2.0, 9.0))
    assert (domain.env, domain.names, domain.features, domain.widths) == ("mine", ("height", "speed"), (1,), (1.0,))
    assert (domain.low.tolist(), domain.high.tolist()) == ([-1.0, -3.0], [2.0, np.inf])
    assert (domain.state_dim, domain.action_dim) == (2, 1)
    assert domain.grid == Grid((0, 1), ("height", "speed"), (-1.0, 0.0), (2.0, 9.0), (20, 20))
    assert domain.space == Named.observation_space
    assert domain.action_space == Named.action_space
    assert domain.reachable is None
    assert domain.bounded.tolist() == [True, False]
    assert (domain.middle.tolist(), domain.half_width.tolist()) == ([0.5, 0.0], [1.5, 1.0])


@pytest.mark.parametrize(
    "space",
    [
        Box(-np.inf, np.inf, (3,), np.float32),
        Box(np.array([-np.inf, 0.0]), np.array([5.0, np.inf]), dtype=np.float64),
        Box(-np.finfo(np.float64).max, np.finfo(np.float64).max, (2,), np.float64),
        Box(0, 255, (2,), np.uint8),
        Box(np.iinfo(np.int64).min, np.iinfo(np.int64).max, (2,), np.int64),
    ],
)
def test_spaces_come_back_as_they_were_and_no_arithmetic_complains(space: Box) -> None:
    env = named(None)
    env.single_observation_space = space
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        domain = Domain.of(env, name="any", features="0")
        assert np.isfinite(domain.middle).all()
        assert np.isfinite(domain.half_width).all()
        back = Domain.from_json(domain.to_json())
    assert back.space == space
    assert back.space.dtype == space.dtype
    same(back, domain)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("height",), "feature_names are 1, and its observations have 2 coordinates: give one name per coordinate"),
        (("a", "b", "c"), "feature_names are 3, and its observations have 2"),
        ((), "feature_names are 0"),
        ("ab", "must be a list of texts"),
        (("a", 7), "must be a list of texts"),
        (("a", "b" * 201), "at most 200 characters"),
    ],
)
def test_names_that_do_not_fit_are_one_sentence(names: Any, message: str) -> None:
    with pytest.raises(EnvironmentFault, match=message):
        Domain.of(named(names), name="mine")


def test_reachable_cells_are_known_once() -> None:
    domain = Domain.of(make_env("mepol/GridWorld-v0", 1), name="mepol/GridWorld-v0", ceiling=4.608)
    assert domain.reachable.sum() == 288
    back = Domain.from_json(domain.to_json())
    same(back, domain)


# --- Features as a function -----------------------------------------------------------------------------------------

BATCH = Batch(np.arange(24.0).reshape(2, 4, 3), np.zeros((2, 3, 1), np.float32), np.array([3, 2]))


def polar(states: np.ndarray) -> np.ndarray:
    return np.stack([np.hypot(states[:, 0], states[:, 1]), np.arctan2(states[:, 1], states[:, 0])], axis=1)


def test_a_function_of_states_gives_the_particles() -> None:
    domain = Domain.of(named(), name="mine", features=polar)
    assert domain.widths == (1.0, 1.0)
    np.testing.assert_array_equal(domain.particles(BATCH), polar(BATCH.particles((0, 1, 2))))
    stored = domain.to_json()
    assert json.loads(stored)["features"] == {"given": f"{__name__}:polar"}
    again = Domain.from_json(stored, features=polar)
    np.testing.assert_array_equal(again.particles(BATCH), domain.particles(BATCH))
    without = Domain.from_json(stored)
    assert without.to_json() == stored
    with pytest.raises(ConfigError, match=rf"the function '{__name__}:polar', which is not stored: hand it in again"):
        without.particles(BATCH)


def test_coordinates_give_the_particles_of_the_batch() -> None:
    domain = dataclasses.replace(Domain.of(named(), name="mine"), features=(2, 0))
    np.testing.assert_array_equal(domain.particles(BATCH), BATCH.particles((2, 0)))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda states: states[:, 0], r"returned \(2,\) float64, not \(2, D\) real numbers"),
        (lambda states: states[:1], r"returned \(1, 2\) float64, not \(2, D\)"),
        (lambda states: states[:, :0], r"returned \(2, 0\) float64"),
        (lambda states: states.astype(str), r"returned \(2, 2\) <U32"),
        (lambda states: states / 0 * 0, "gave a NaN or infinite value for the state"),
        (lambda states: states[:, 9], "raised IndexError"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_a_function_that_gives_no_features_is_one_sentence(function: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^the features '.*' {message}"):
        Domain.of(named(), name="mine", features=function)


def test_a_function_scales_its_own_features() -> None:
    with pytest.raises(ConfigError, match="scale_features is not possible with a function"):
        Domain.of(named(), name="mine", features=polar, scale_features="bounds")


# --- JSON -----------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
SMALL = st.floats(-1e6, 1e6)


@st.composite
def domains(draw: st.DrawFn) -> Domain:
    size, actions = draw(st.integers(1, 6)), draw(st.integers(1, 3))

    def ends(n: int) -> tuple[np.ndarray, np.ndarray]:
        pairs = [sorted((draw(NUMBERS | st.just(-np.inf)), draw(NUMBERS | st.just(np.inf)))) for _ in range(n)]
        return np.array([low for low, _ in pairs]), np.array([high for _, high in pairs])

    names = tuple(draw(st.lists(TEXTS, min_size=size, max_size=size)))
    features = tuple(draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=size, unique=True)))
    widths = tuple(draw(st.floats(1e-300, 1e300)) for _ in features)
    grid = mask = None
    if draw(st.booleans()):
        axes = draw(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)))
        low, bins = (draw(SMALL), draw(SMALL)), draw(st.tuples(st.integers(1, 30), st.integers(1, 30)))
        high = tuple(float(np.nextafter(v, np.inf)) for v in low)
        grid = Grid(axes, (names[axes[0]], names[axes[1]]), low, high, bins)
        mask = np.random.default_rng(draw(st.integers(0, 99))).random(bins) < 0.5 if draw(st.booleans()) else None
    env, ceiling = draw(TEXTS), draw(st.none() | NUMBERS)
    return Domain(env, *ends(size), *ends(actions), names, features, widths, grid, ceiling, mask, ("float64",) * 2)


@given(domains())
def test_any_domain_survives_json(domain: Domain) -> None:
    text = domain.to_json()
    same(Domain.from_json(text), domain)
    assert Domain.from_json(text).to_json() == text
    assert not any(word in text for word in ("NaN", "Infinity"))


GOOD = json.loads(Domain.of(make_env("mepol/GridWorld-v0", 1), name="mepol/GridWorld-v0").to_json())
ODD = (
    *(None, True, -1, 0, 2**70, 10**400, 1e308, 0.5, "", "x", "\ud800", "A" * 10**5, "!!!!", [], {}, [None] * 3),
    *({"given": 7}, {"given": "m:f"}, ["a", "b"], [[0]], [0, 0], [1e308, -1e308], [4096, 4096], [0, 10**9]),
    *("float128", "float16", "uint64"),
)


def places(value: Any, path: tuple = ()) -> list[tuple]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] + [place for key, item in inner for place in places(item, (*path, key))]


@pytest.mark.parametrize("place", places(GOOD), ids=str)
def test_anything_odd_anywhere_is_a_named_error_or_a_domain(place: tuple) -> None:
    for odd in ODD:
        content = json.loads(json.dumps(GOOD))
        if not place:
            content = odd
        else:
            inner = content
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = odd
        read_or_refused(json.dumps(content))
        if place and isinstance(inner, dict) and place[-1] not in domain_json.LATER:
            del inner[place[-1]]
            with pytest.raises(RunError, match="must be an object of"):
                Domain.from_json(json.dumps(content))


def test_mutated_texts_are_named_errors_or_domains() -> None:
    rng, good = random.Random(0), json.dumps(GOOD)
    refused = 0
    for _ in range(3000):
        text = list(good)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text))
            text[at : at + rng.randint(0, 3)] = rng.choice(["", "9", "9e999", "NaN", "]", "{", '"', "null", "-", "\\u"])
        refused += read_or_refused("".join(text))
    assert refused > 1000


def read_or_refused(text: str) -> bool:
    try:
        domain = Domain.from_json(text, where="RUN/domain.json")
    except RunError as error:
        sentence = str(error)
    else:
        sentence = ""
    if sentence:
        assert sentence.startswith("RUN/domain.json is not a domain: ")
        assert len(sentence) < 400
        return True
    assert Domain.from_json(domain.to_json()).to_json() == domain.to_json()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert domain.space.shape == (domain.state_dim,)
        assert domain.action_space.shape == (domain.action_dim,)
    return False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 10**5, "recursion|nested|Expecting"),
        ("1" * 10**4, "digits"),
        ("null", "must be an object of format"),
        (json.dumps({**GOOD, "format": "mepol-domain-9"}), "format is 'mepol-domain-9'"),
        (json.dumps({**GOOD, "names": ["a"] * 10**5}), "names must be a list of 2 values"),
        (json.dumps({**GOOD, "widths": [0.0, 1.0]}), "widths must be above 0"),
        (json.dumps({**GOOD, "features": [0, 0]}), "name a coordinate twice"),
        (json.dumps({**GOOD, "tabular": 1}), "tabular must be true or false"),
        (json.dumps({**GOOD, "reachable": GOOD["reachable"][:-4]}), "must be 400 bits"),
        (
            json.dumps({**GOOD, "actions": {"dtype": "uint8", "low": [-1], "high": [300]}}),
            "beyond what their type uint8",
        ),
        (json.dumps({**GOOD, "grid": None}), "reachable cells have no grid"),
        (json.dumps({**GOOD, "grid": {**GOOD["grid"], "bins": [4097, 1]}}), "whole numbers from 1 to 4096"),
        (
            json.dumps({**GOOD, "observations": {"dtype": "float64", "low": [1, 0], "high": [0, 1]}}),
            "must not lie abov",
        ),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(RunError, match=message):
        Domain.from_json(text)


def test_a_text_too_long_is_not_even_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain_json, "MAX_TEXT", 100)
    with pytest.raises(RunError, match=r"has \d+ characters, more than 100"):
        Domain.from_json(json.dumps(GOOD))

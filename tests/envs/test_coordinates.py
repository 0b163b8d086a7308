"""Coordinates are chosen by name, number or range, and anything else is refused with a hint."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from mepol.envs.coordinates import feature_names, features_of, select_coordinates, select_features
from mepol.envs.mountain_car import MountainCarVectorEnv
from mepol.errors import ConfigError

NAMES = ("x", "y", "z", "yaw", "speed")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", (0, 1, 2, 3, 4)),
        ("", (0, 1, 2, 3, 4)),
        ("x", (0,)),
        ("x,y", (0, 1)),
        (" y , x ", (1, 0)),
        ("3", (3,)),
        ("0:3", (0, 1, 2)),
        ("2:", (2, 3, 4)),
        (":2", (0, 1)),
        (":", (0, 1, 2, 3, 4)),
        ("0:2,yaw", (0, 1, 3)),
        ("speed,0", (4, 0)),
        ("all,-1", (0, 2, 3, 4)),
        ("-yaw", (0, 1, 2, 4)),
        ("not 1:4", (0, 4)),
        ("0:4,-x,-2", (1, 3)),
        ("angle(x,y),z", ((0, 1), 2)),
        ("z,angle(3,speed)", (2, (3, 4))),
    ],
)
def test_names_numbers_and_ranges(text: str, expected: tuple[int, ...]) -> None:
    assert select_features(text, NAMES) == expected


@pytest.mark.parametrize("text", ["w", "5", "-5", "not w", "3:2", "0:6", "2:2", "1.5", "a:b", "0:3:1"])
def test_what_names_no_coordinate_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"no feature '.*' among the 5 coordinates \(x, y, z, yaw, speed\)"):
        select_features(text, NAMES)


def test_a_group_is_named_by_what_stands_before_the_dot() -> None:
    names = ("goal.0", "goal.1", "arm.x", "arm.y.0", "arm.y.1")
    assert select_features("goal", names) == (0, 1)
    assert select_features("arm.y,goal.1", names) == (3, 4, 1)
    assert select_features("not arm", names) == (0, 1)


@pytest.mark.parametrize("text", ["x,", "x,x", "0,x", "all,y"])
def test_a_coordinate_is_named_once(text: str) -> None:
    with pytest.raises(ConfigError, match="name a coordinate twice"):
        select_features(text, NAMES)


def test_nothing_left_is_refused() -> None:
    with pytest.raises(ConfigError, match="leave no coordinate"):
        select_features("x,-x", NAMES)
    with pytest.raises(ConfigError, match=r"must name two coordinates, the cosine and the sine"):
        select_features("angle(x)", NAMES)
    with pytest.raises(ConfigError, match=r"angle\(x,y\) is no coordinate"):
        select_coordinates("angle(x,y),z", NAMES)


def test_an_angle_is_that_of_its_cosine_and_sine() -> None:
    truth = np.linspace(-3, 3, 7)
    states = np.stack([np.cos(truth), np.sin(truth), 2 * truth], axis=-1)[None]
    found = features_of(states, np.ones((1, 7), dtype=bool), ((0, 1), 2))
    assert np.allclose(found, np.stack([truth, 2 * truth], axis=-1), atol=1e-15)


def test_the_nearest_name_is_suggested() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'speed'\?"):
        select_features("sped", NAMES)


@pytest.mark.parametrize("text", ["x,x", "x,0", "0:3,2"])
def test_a_coordinate_named_twice_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="twice"):
        select_features(text, NAMES)


def test_long_lists_are_cut_in_the_message() -> None:
    with pytest.raises(ConfigError, match=r"among the 40 coordinates \(0, 1, .*11, \.\.\.\)"):
        select_features("far", [str(i) for i in range(40)])


def test_an_environment_s_own_names_are_used() -> None:
    assert feature_names(MountainCarVectorEnv(2), 2) == ("position", "velocity")
    assert feature_names(gymnasium.make("mepol/GridWorld-v0"), 2) == ("x", "y")
    assert feature_names(gymnasium.make_vec("Pendulum-v1", 1), 3) == ("0", "1", "2")

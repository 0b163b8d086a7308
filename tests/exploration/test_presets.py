"""The presets hold the paper's table, and every number in them says where it is from."""

from __future__ import annotations

import dataclasses
import math

import pytest

from mepol.errors import ConfigError
from mepol.exploration.presets import PRESETS, fast, preset, starting_config

# Appendix, table "MEPOL Parameters", copied by hand.
PAPER = {
    "mountain-car": {
        "epochs": 650,
        "horizon": 400,
        "trajectories": 20,
        "kl_threshold": 15.0,
        "learning_rate": 1e-4,
        "max_steps": 30,
        "k": 4,
        "hidden": (300, 300),
    },
    "gridworld": {
        "epochs": 200,
        "horizon": 1200,
        "trajectories": 20,
        "kl_threshold": 15.0,
        "learning_rate": 1e-5,
        "max_steps": 30,
        "k": 50,
        "hidden": (300, 300),
    },
}


def flat(config: object) -> dict[str, object]:
    pairs: dict[str, object] = {}
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        value = getattr(config, field.name)
        pairs.update(flat(value) if dataclasses.is_dataclass(value) else {field.name: value})
    return pairs


@pytest.mark.parametrize("name", PAPER)
def test_the_paper_s_table(name: str) -> None:
    entry = preset(name)
    settings = flat(entry.config)
    assert {key: settings[key] for key in PAPER[name]} == PAPER[name]
    assert all("paper" in entry.sources[key] for key in PAPER[name])


def test_what_the_paper_leaves_out_is_the_release_s() -> None:
    grid, car = flat(preset("gridworld").config), flat(preset("mountain-car").config)
    assert (grid["log_std"], car["log_std"]) == (-1.5, -0.5)
    assert (grid["eps"], car["eps"]) == (0.0, 1e-15)
    assert (grid["heatmap_bins"], car["heatmap_bins"]) == ((20, 20), (12, 11))
    assert (car["heatmap_low"], car["heatmap_high"]) == ((-1.2, -0.07), (0.6, 0.07))
    assert all(s["evaluation_trajectories"] == 100 and s["zero_mean_steps"] == 100 for s in (grid, car))
    assert grid["ceiling"] == pytest.approx(math.log(100.25))
    assert car["ceiling"] == pytest.approx(-1.465, abs=5e-4)


@pytest.mark.parametrize("name", PRESETS)
def test_sources_name_settings_that_exist(name: str) -> None:
    assert set(preset(name).sources) <= set(flat(preset(name).config))
    assert preset(name).summary


@pytest.mark.parametrize(
    ("typed", "meant"), [("gridwold", "gridworld"), ("grid-world", "gridworld"), ("mountaincar", "mountain-car")]
)
def test_an_unknown_preset_suggests_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"{typed}.*did you mean '{meant}'\?.*presets: "):
        preset(typed)


def test_a_name_like_nothing_lists_the_presets() -> None:
    with pytest.raises(ConfigError, match="presets: gridworld, mountain-car"):
        preset("qqqqqqqq")


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_has_fast_settings_for_the_same_question(name: str) -> None:
    config = PRESETS[name].config
    quick = fast(name, config)
    for kept in ("env", "features", "horizon", "ceiling"):
        assert getattr(quick, kept) == getattr(config, kept)
    assert quick.policy.mirror
    if f"{name}-fast" in PRESETS:
        assert quick == PRESETS[f"{name}-fast"].config


@pytest.mark.parametrize("name", ["gridworld", "mountain-car", "ant", "humanoid", "humanoid-fast", "hand-reach"])
def test_fast_maxent_starts_as_trpo_does(name: str) -> None:
    config = starting_config(name, explorer="maxent", quick=True)
    assert config.explorer == "maxent"
    assert (config.policy.mirror, config.policy.standardise, config.policy.noise_correlation) == (False, False, 0.0)


@pytest.mark.parametrize("name", ["humanoid", "humanoid-xyz", "hand-reach", "hand-reach-fingertips"])
@pytest.mark.parametrize("explorer", ["rnd", "apt", "re3"])
def test_where_mepol_carries_its_noise_rivals_have_the_white_one_that_they_can_draw(name: str, explorer: str) -> None:
    own, rival = starting_config(name, quick=True), starting_config(name, explorer=explorer, quick=True)
    assert (own.policy.noise_correlation, own.policy.log_std) == (0.75, 0.0)
    assert (rival.policy.noise_correlation, rival.policy.log_std) == (0.0, -0.5)


@pytest.mark.parametrize("explorer", ["rnd", "apt", "re3"])
def test_rivals_in_an_unknown_environment_have_mepol_s_network_and_samples(explorer: str) -> None:
    own, rival = starting_config("Pendulum-v1"), starting_config("Pendulum-v1", explorer=explorer)
    assert rival.policy == own.policy
    assert (rival.epochs, rival.trajectories, rival.horizon) == (own.epochs, own.trajectories, own.horizon)

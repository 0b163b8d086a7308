"""The paper's settings as values, each with where it comes from.

"paper" is the table "MEPOL Parameters" of the appendix; "release" is what the authors' code uses where the paper
is silent; "ours" is neither, and docs/ says why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches

from mepol.config import AscentConfig, EvaluationConfig, ExploreConfig, PolicyConfig
from mepol.envs import gridworld, mountain_car
from mepol.errors import ConfigError


@dataclass(frozen=True)
class Preset:
    """A named configuration."""

    summary: str
    config: ExploreConfig
    sources: dict[str, str]
    """Setting -> where its value comes from."""


_PAPER = "paper, table MEPOL Parameters"
_TABLE = dict.fromkeys(
    ("epochs", "horizon", "trajectories", "kl_threshold", "learning_rate", "max_steps", "k", "hidden"), _PAPER
)
_BINS = "release (bins of its discrete entropy)"

_MOUNTAIN_CAR = ExploreConfig(
    env="mepol/MountainCar-v0",
    epochs=650,
    horizon=400,
    trajectories=20,
    ascent=AscentConfig(k=4, kl_threshold=15.0, learning_rate=1e-4, max_steps=30, eps=1e-15),
    policy=PolicyConfig(hidden=(300, 300), log_std=-0.5),
    evaluation=EvaluationConfig(
        heatmap_axes="position,velocity",
        heatmap_low=(-1.2, -0.07),
        heatmap_high=(0.6, 0.07),
        heatmap_bins=(12, 11),
        evaluate_every=10,
    ),
    ceiling=mountain_car.ENTROPY_CEILING,
)

_MOUNTAIN_CAR_SOURCES = {
    **_TABLE,
    "log_std": "release",
    "eps": "release",
    "evaluate_every": "release",
    "evaluation_trajectories": "release",
    "heatmap_bins": _BINS,
    "heatmap_low": _BINS,
    "heatmap_high": _BINS,
    "ceiling": "ln of the area of the state box, 1.65 x 0.14",
}

PRESETS: dict[str, Preset] = {
    "gridworld": Preset(
        "four rooms joined by hallways, 2-D; about 4.5 of a possible 4.608 nats after 30 epochs",
        ExploreConfig(
            env="mepol/GridWorld-v0",
            epochs=200,
            horizon=1200,
            trajectories=20,
            ascent=AscentConfig(k=50, kl_threshold=15.0, learning_rate=1e-5, max_steps=30),
            policy=PolicyConfig(hidden=(300, 300), log_std=-1.5),
            evaluation=EvaluationConfig(heatmap_axes="x,y", heatmap_bins=(20, 20), evaluate_every=10),
            ceiling=gridworld.ENTROPY_CEILING,
        ),
        {
            **_TABLE,
            "log_std": "release",
            "evaluate_every": "release",
            "evaluation_trajectories": "release",
            "heatmap_bins": _BINS,
            "ceiling": "ln of the free area, 100.25",
        },
    ),
    "mountain-car": Preset(
        "an underpowered car between two hills, 2-D; the paper's settings",
        _MOUNTAIN_CAR,
        _MOUNTAIN_CAR_SOURCES,
    ),
    "mountain-car-tuned": Preset(
        "the same with the network's input scaled to [-1, 1]: reaches the paper's discrete entropy",
        replace(_MOUNTAIN_CAR, policy=replace(_MOUNTAIN_CAR.policy, scale_inputs=True)),
        {**_MOUNTAIN_CAR_SOURCES, "scale_inputs": "ours (docs/mountain-car.md)"},
    ),
}


def preset(name: str) -> Preset:
    """The preset called `name`, or a ConfigError that suggests the nearest."""
    if name in PRESETS:
        return PRESETS[name]
    near = get_close_matches(name, PRESETS, 1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(f"no preset or environment called {name!r}; {hint}presets: {', '.join(PRESETS)}")

"""The paper's settings as values, each with where it comes from.

"paper" is the table "MEPOL Parameters" of the appendix; "release" is what the authors' code uses where the paper
is silent; "ours" is neither, and docs/ says why.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from mepol.algorithm.config import AscentConfig, PolicyConfig
from mepol.envs import gridworld, gridworld_200d, mountain_car
from mepol.errors import ConfigError
from mepol.exploration.config import EvaluationConfig, ExploreConfig, MaxEntConfig
from mepol.settings import with_settings


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

# What the paper does not say of MaxEnt (eps, weights, coordinates of the density, the first component) is as in the
# code of Hazan et al. that it adapted; docs/rivals.md lists it.
_RIVAL = dict.fromkeys(
    (
        *("mixture_size", "density_horizon", "density_trajectories", "density_kernel", "density_bandwidth"),
        *("density_pca", "trpo_iterations", "trpo_steps", "trpo_kl", "trpo_discount"),
    ),
    "paper, table MaxEnt Parameters",
) | dict.fromkeys(("density_eps", "density_features", "mixture_weights", "mixture_draw"), "code of Hazan et al.")
_RIVAL |= {"density_points": "ours (docs/rivals.md)", "scale_reward": "ours (docs/rivals.md)"}

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
    maxent=MaxEntConfig(
        mixture_size=60,
        density_horizon=400,
        density_trajectories=100,
        density_bandwidth=0.1,
        trpo_iterations=50,
        trpo_steps=4000,
    ),
    ceiling=mountain_car.ENTROPY_CEILING,
)

_MOUNTAIN_CAR_SOURCES = {
    **_TABLE,
    **_RIVAL,
    "mixture_size": "paper, table MaxEnt Parameters (its figure's caption: 20)",
    "log_std": "release",
    "eps": "release",
    "evaluate_every": "release",
    "evaluation_trajectories": "release",
    "heatmap_bins": _BINS,
    "heatmap_low": _BINS,
    "heatmap_high": _BINS,
    "ceiling": "ln of the area of the state box, 1.65 x 0.14",
}

_LOCOMOTION = ExploreConfig(
    env="mepol/Ant-v0",
    features="0:7",
    epochs=2000,
    horizon=500,
    trajectories=20,
    ascent=AscentConfig(k=4, kl_threshold=15.0, learning_rate=1e-5, max_steps=30),
    policy=PolicyConfig(hidden=(400, 300), log_std=-0.5),
    evaluation=EvaluationConfig(
        heatmap_axes="x,y",
        heatmap_low=(-12.0, -12.0),
        heatmap_high=(12.0, 12.0),
        heatmap_bins=(40, 40),
        evaluate_every=25,
    ),
    maxent=MaxEntConfig(density_horizon=10_000, density_trajectories=10, density_bandwidth=0.2, density_pca=3),
)
_HUMANOID_RIVAL = MaxEntConfig(density_horizon=50_000, density_trajectories=20, density_bandwidth=1.0)
_RELEASED = dict.fromkeys(("log_std", "evaluate_every", "evaluation_trajectories"), "release")
_LOCOMOTION_SOURCES = {
    **_TABLE,
    **_RIVAL,
    **_RELEASED,
    "features": "paper, section Task-Agnostic Exploration Learning",
    "heatmap_axes": "paper, figure of discrete entropies",
    "heatmap_low": _BINS,
    "heatmap_high": _BINS,
    "heatmap_bins": _BINS,
}
_HIGHER_LEVEL = {"features": "paper, appendix on higher-level policies", "epochs": "release", "kl_threshold": "release"}

_HAND = replace(
    _LOCOMOTION,
    env="mepol/HandReach-v0",
    features="0:24",
    horizon=50,
    trajectories=50,
    maxent=MaxEntConfig(density_horizon=10_000, density_trajectories=20, density_bandwidth=1.0, trpo_steps=500),
    evaluation=EvaluationConfig(
        heatmap_axes="0,1", heatmap_low=(-0.5, -0.8), heatmap_high=(0.2, 0.5), heatmap_bins=(20, 20), evaluate_every=25
    ),
)
_HAND_SOURCES = {
    **_TABLE,
    **_RIVAL,
    **_RELEASED,
    "features": "paper: all joint angles",
    "heatmap_axes": "ours: the wrist",
}
_EXTRA = "paper, caption in Additional Experiments"
_EXTRA_ASCENT = dict.fromkeys(("k", "horizon", "trajectories", "kl_threshold"), _EXTRA)

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
    "ant": Preset(
        "a four-legged robot on a plane, 29-D; entropy over torso position and orientation, 7-D",
        _LOCOMOTION,
        _LOCOMOTION_SOURCES,
    ),
    "ant-xy": Preset(
        "the same, entropy over x and y alone: the start for navigation tasks",
        replace(_LOCOMOTION, features="x,y", epochs=10_000, ascent=replace(_LOCOMOTION.ascent, kl_threshold=0.05)),
        {**_LOCOMOTION_SOURCES, **_HIGHER_LEVEL},
    ),
    "humanoid": Preset(
        "a humanoid robot on a plane, 47-D; entropy over position, orientation and joint angles, 24-D",
        replace(_LOCOMOTION, env="mepol/Humanoid-v0", features="0:24", maxent=_HUMANOID_RIVAL),
        _LOCOMOTION_SOURCES,
    ),
    "humanoid-xyz": Preset(
        "the same, entropy over x, y and z alone: the start for standing up",
        replace(_LOCOMOTION, env="mepol/Humanoid-v0", features="x,y,z", maxent=_HUMANOID_RIVAL),
        {**_LOCOMOTION_SOURCES, **_HIGHER_LEVEL},
    ),
    "hand-reach": Preset("a robot hand, 63-D; entropy over its 24 joint angles", _HAND, _HAND_SOURCES),
    "hand-reach-fingertips": Preset(
        "the same, entropy over the positions of the five fingertips, 15-D",
        replace(_HAND, features="48:63", trajectories=100, ascent=replace(_HAND.ascent, kl_threshold=0.05)),
        {**_HAND_SOURCES, **_EXTRA_ASCENT, "features": _EXTRA},
    ),
    "ant-maze": Preset(
        "the ant in a walled maze; entropy over x and y",
        replace(
            _LOCOMOTION,
            env="mepol/AntMaze-v0",
            features="x,y",
            trajectories=100,
            ascent=replace(_LOCOMOTION.ascent, k=50, kl_threshold=0.05),
            evaluation=replace(_LOCOMOTION.evaluation, heatmap_low=(-6.25, -6.25), heatmap_high=(6.25, 6.25)),
            ceiling=math.log(112.5),
        ),
        {
            **_LOCOMOTION_SOURCES,
            **_EXTRA_ASCENT,
            "features": _EXTRA,
            "heatmap_low": "the maze's borders",
            "heatmap_high": "the maze's borders",
            "ceiling": "ln of the area between the walls, 112.5",
        },
    ),
    "gridworld-200d": Preset(
        "a hundred four-room planes at once, 200-D states and actions",
        ExploreConfig(
            env="mepol/GridWorld200-v0",
            epochs=200,
            horizon=1200,
            trajectories=20,
            ascent=AscentConfig(k=50, kl_threshold=15.0, learning_rate=1e-5, max_steps=30),
            policy=PolicyConfig(hidden=(300, 300), log_std=-1.5),
            evaluation=EvaluationConfig(
                heatmap_axes="x1,y1", heatmap_bins=(20, 20), evaluate_every=10, evaluation_trajectories=20
            ),
            ceiling=gridworld_200d.ENTROPY_CEILING,
        ),
        {
            **dict.fromkeys(_TABLE, "as gridworld: the paper does not give them"),
            "log_std": "as gridworld",
            "evaluation_trajectories": "ours: neighbours among 120,000 points in 200-D take minutes",
            "ceiling": "a hundred times that of one plane",
        },
    ),
}

# --- The same in a fraction of the time (docs/performance.md) -------------------------------------------------------

_OURS = "ours (docs/performance.md)"
# Where matrix products are the wall: Eq. 2 as it is, with a small network on scaled inputs and fewer, surer steps.
_SMALL: dict[str, Any] = {
    "trajectories": 40,
    "max_steps": 15,
    "kl_threshold": 1.0,
    "hidden": (64, 64),
    "scale_inputs": True,
    "input_range": 3.0,
    "zero_mean_steps": 0,
    "mirror": True,
}
# Where physics is the wall, and the noise of long returns the reason to need so much of it: a critic that is trusted
# beyond five steps or so, and inputs of one scale (joints turn ten times faster than they reach).
_CRITIC: dict[str, Any] = {
    "rule": "advantage",
    "learning_rate": 1.5e-4,
    "max_steps": 4,
    "policy_kl": 0.03,
    "kl_threshold": 40.0,
    "trace": 0.8,
    "hidden": (128, 128),
    "standardise": True,
    "zero_mean_steps": 0,
    "mirror": True,
}
# Where nothing was tuned (docs/performance.md, "Any environment"): the critic's, and bounded inputs to one scale too.
_GENERAL: dict[str, Any] = {**_CRITIC, "scale_inputs": True}
_FAST: dict[str, dict[str, Any]] = {
    "gridworld": {**_SMALL, "learning_rate": 1.5e-4, "epochs": 40},
    "mountain-car": {**_SMALL, "learning_rate": 3e-4, "k": 50, "eps": 1e-6, "epochs": 150},
    "ant": {**_CRITIC, "epochs": 500},
    "humanoid": {**_CRITIC, "epochs": 500},
}


def _fast(name: str) -> Preset:
    base, changes = PRESETS[name], _FAST[name]
    return Preset(
        f"{base.summary}; in a fraction of the time",
        with_settings(base.config, changes),
        base.sources | dict.fromkeys(changes, _OURS),
    )


PRESETS |= {f"{name}-fast": _fast(name) for name in _FAST}


def fast(name: str, config: ExploreConfig) -> ExploreConfig:
    """What does as `config` does in a fraction of the time: tuned for the preset `name`, or else general settings."""
    return PRESETS[f"{name}-fast"].config if name in _FAST else with_settings(config, _GENERAL)


def preset(name: str) -> Preset:
    """The preset called `name`, or a ConfigError that suggests the nearest."""
    if name in PRESETS:
        return PRESETS[name]
    near = get_close_matches(name, PRESETS, 1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(f"no preset or environment called {name!r}; {hint}presets: {', '.join(PRESETS)}")

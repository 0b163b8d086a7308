"""The paper's settings as one table of name, value and source; a preset's config is built from its rows.

"paper" is the table "MEPOL Parameters" of the appendix; "release" is what the authors' code uses where the paper
is silent; "ours" is neither, and docs/ says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from mepol.envs import gridworld, gridworld_200d, mountain_car
from mepol.envs.make import limit_of
from mepol.envs.names import advice, is_known
from mepol.errors import ConfigError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.rival_presets import ANT_RIVALS, CAR_RIVALS, HAND_RIVALS, HUMANOID_RIVALS, LEANING, start_of
from mepol.exploration.seeing import picture_rows, seeing
from mepol.exploration.worlds.shipped import SHIPPED
from mepol.settings import Row, Rows, built, over, rows, with_settings


@dataclass(frozen=True)
class Preset:
    """A named configuration."""

    summary: str
    rows: Rows
    """What differs from the general defaults, or has a source for agreeing with them."""
    rivals: Mapping[str, Rows] = field(default_factory=dict)
    """The settings of other explorers in the same domain, for when one of them is asked for."""

    @cached_property
    def config(self) -> ExploreConfig:
        """The settings, with MEPOL exploring."""
        return self.config_for("mepol")

    @property
    def sources(self) -> dict[str, str]:
        """Setting -> where its value comes from."""
        return {row.setting: row.source for row in self.rows}

    def rows_for(self, explorer: str) -> Rows:
        """The rows that hold when `explorer` explores."""
        own = (*start_of(explorer), *self.rivals.get(explorer, ())) if isinstance(explorer, str) else ()
        return over(self.rows, Row("explorer", explorer, "asked for"), *own)

    def config_for(self, explorer: str, changes: Mapping[str, Any] | None = None) -> ExploreConfig:
        """The settings with another explorer, and with its own as the paper has them for this domain.

        changes: settings by flat name that replace the preset's.
        """
        asked = tuple(Row(name, value, "asked for") for name, value in (changes or {}).items())
        return built(ExploreConfig(env=""), over(self.rows_for(explorer), *picture_rows(changes or {}), *asked))


_PAPER = "paper, table MEPOL Parameters"
_BINS = "release (bins of its discrete entropy)"
_DOMAIN = "the domain's"

# --- The domains ----------------------------------------------------------------------------------------------------

_TABLE = {"trajectories": 20, "kl_threshold": 15.0, "max_steps": 30}  # of every domain in the paper's table
_GRIDWORLD = (
    *rows(_DOMAIN, env="mepol/GridWorld-v0", heatmap_axes="x,y"),
    *rows(_PAPER, epochs=200, horizon=1200, **_TABLE, learning_rate=1e-5, k=50, hidden=(300, 300)),
    *rows("release", log_std=-1.5, evaluate_every=10, evaluation_trajectories=100),
    *rows(_BINS, heatmap_bins=(20, 20)),
    *rows("ln of the free area, 100.25", ceiling=gridworld.ENTROPY_CEILING),
)
_MOUNTAIN_CAR = (
    *rows(_DOMAIN, env="mepol/MountainCar-v0", heatmap_axes="position,velocity"),
    *rows(_PAPER, epochs=650, horizon=400, **_TABLE, learning_rate=1e-4, k=4, hidden=(300, 300)),
    *rows("release", log_std=-0.5, eps=1e-15, evaluate_every=10, evaluation_trajectories=100),
    *rows(_BINS, heatmap_low=(-1.2, -0.07), heatmap_high=(0.6, 0.07), heatmap_bins=(12, 11)),
    *rows("ln of the area of the state box, 1.65 x 0.14", ceiling=mountain_car.ENTROPY_CEILING),
)
_ANT = (
    *rows(_DOMAIN, env="mepol/Ant-v0"),
    *rows("paper, section Task-Agnostic Exploration Learning", features="0:7"),
    *rows(_PAPER, epochs=2000, horizon=500, **_TABLE, learning_rate=1e-5, k=4, hidden=(400, 300)),
    *rows("release", log_std=-0.5, evaluate_every=25, evaluation_trajectories=100),
    *rows("paper, figure of discrete entropies", heatmap_axes="x,y"),
    *rows(_BINS, heatmap_low=(-12.0, -12.0), heatmap_high=(12.0, 12.0), heatmap_bins=(40, 40)),
)
_HUMANOID = over(
    _ANT,
    *rows(_DOMAIN, env="mepol/Humanoid-v0"),
    *rows("paper, section Task-Agnostic Exploration Learning", features="0:24"),
)
_HAND = over(
    _ANT,
    *rows(_DOMAIN, env="mepol/HandReach-v0"),
    *rows("paper: all joint angles", features="0:24"),
    *rows(_PAPER, horizon=50, trajectories=50),
    *rows("ours: the wrist", heatmap_axes="0,1", heatmap_low=(-0.5, -0.8), heatmap_high=(0.2, 0.5)),
    *rows("ours: the wrist", heatmap_bins=(20, 20)),
)
_HIGHER = "paper, appendix on higher-level policies"
_EXTRA = "paper, caption in Additional Experiments"
_ALIKE = "as gridworld: the paper does not give them"

PRESETS: dict[str, Preset] = {
    "gridworld": Preset(
        "four rooms joined by hallways, 2-D; about 4.5 of a possible 4.608 nats after 30 epochs",
        _GRIDWORLD,
        LEANING,
    ),
    "mountain-car": Preset(
        "an underpowered car between two hills, 2-D; the paper's settings", _MOUNTAIN_CAR, CAR_RIVALS
    ),
    "mountain-car-tuned": Preset(
        "the same with the network's input scaled to [-1, 1]: reaches the paper's discrete entropy",
        over(_MOUNTAIN_CAR, *rows("ours (docs/results/mountain-car.md)", scale_inputs=True)),
        CAR_RIVALS,
    ),
    "ant": Preset(
        "a four-legged robot on a plane, 29-D; entropy over torso position and orientation, 7-D", _ANT, ANT_RIVALS
    ),
    "ant-xy": Preset(
        "the same, entropy over x and y alone: the start for navigation tasks",
        over(_ANT, *rows(_HIGHER, features="x,y"), *rows("release", epochs=10_000, kl_threshold=0.05)),
        ANT_RIVALS,
    ),
    "humanoid": Preset(
        "a humanoid robot on a plane, 47-D; entropy over position, orientation and joint angles, 24-D",
        _HUMANOID,
        HUMANOID_RIVALS,
    ),
    "humanoid-xyz": Preset(
        "the same, entropy over x, y and z alone: the start for standing up",
        over(_HUMANOID, *rows(_HIGHER, features="x,y,z"), *rows("release", epochs=2000, kl_threshold=15.0)),
        HUMANOID_RIVALS,
    ),
    "hand-reach": Preset("a robot hand, 63-D; entropy over its 24 joint angles", _HAND, HAND_RIVALS),
    "hand-reach-fingertips": Preset(
        "the same, entropy over the positions of the five fingertips, 15-D",
        over(_HAND, *rows(_EXTRA, features="48:63", k=4, horizon=50, trajectories=100, kl_threshold=0.05)),
        HAND_RIVALS,
    ),
    "ant-maze": Preset(
        "the ant in a walled maze; entropy over x and y",
        over(
            _ANT,
            *rows(_DOMAIN, env="mepol/AntMaze-v0"),
            *rows(_EXTRA, features="x,y", k=50, horizon=500, trajectories=100, kl_threshold=0.05),
            *rows("the maze's borders", heatmap_low=(-6.25, -6.25), heatmap_high=(6.25, 6.25)),
            *rows("ln of the area between the walls, 112.5", ceiling=math.log(112.5)),
        ),
        ANT_RIVALS,
    ),
    "gridworld-200d": Preset(
        "a hundred four-room planes at once, 200-D states and actions",
        over(
            tuple(Row(row.setting, row.value, _ALIKE) for row in _GRIDWORLD),
            *rows(_DOMAIN, env="mepol/GridWorld200-v0", heatmap_axes="x1,y1"),
            *rows("ours: neighbours among 120,000 points in 200-D take minutes", evaluation_trajectories=20),
            *rows("a hundred times that of one plane", ceiling=gridworld_200d.ENTROPY_CEILING),
        ),
        LEANING,
    ),
}

PRESETS |= {
    name: Preset(shipped.summary, over(PRESETS[shipped.base].rows, *shipped.rows)) for name, shipped in SHIPPED.items()
}

# --- The same in a fraction of the time (docs/results/performance.md) -----------------------------------------------

_OURS = "ours (docs/results/performance.md)"
# Where matrix products are the wall: Eq. 2 as it is, with a small network on scaled inputs and fewer, surer steps.
_SMALL = (
    *rows(_OURS, trajectories=40, max_steps=15, kl_threshold=1.0, hidden=(64, 64)),
    *rows(_OURS, scale_inputs=True, input_range=3.0, zero_mean_steps=0, mirror=True),
)
# Where physics is the wall, and the noise of long returns the reason to need so much of it: a critic that is trusted
# beyond five steps or so, and inputs of one scale (joints turn ten times faster than they reach).
_CRITIC = (
    *rows(_OURS, rule="advantage", learning_rate=1.5e-4, max_steps=4, policy_kl=0.03, kl_threshold=40.0, trace=0.8),
    *rows(_OURS, hidden=(128, 128), standardise=True, zero_mean_steps=0, mirror=True),
)
# Where there are several environments, which the critic does not take: mini-batches enough to choose between.
_WORLDS = "ours (docs/results/worlds.md)"
_SEVERAL = over(_SMALL, *rows(_WORLDS, trajectories=100, learning_rate=1.5e-4))
# Where nothing was tuned (docs/results/performance.md, "Any environment"): the critic's, and bounded inputs scaled.
_GENERAL = (*_CRITIC, *rows(_OURS, scale_inputs=True))
# Where nothing is known of the environment: what random play shows of it (envs/survey.py).
_UNKNOWN = (
    *rows(_OURS, features="auto", scale_features="auto", coinciding="floor", heatmap_axes="auto", k=0),
    *rows("ours: minutes", epochs=30),
)
_EPOCH_STEPS, _MEASURED_STEPS = 10_000, 20_000  # of a batch, and of an evaluation, as nearly as whole episodes allow
_BODIES = "ours (results/hard-bodies)"
_LOOSE = rows(_BODIES, noise_correlation=0.75, log_std=0.0)  # white noise of a body's many controls cancels itself
# One pass over a batch, as far as the bound on the actions allows, instead of four timid ones; why it helps is open.
_LEAP = rows(_BODIES, learning_rate=2.5e-3, max_steps=1, damping=0.01)
# An ant can always go further: the critic takes it that what pays goes on paying beyond what it knows. The Humanoid,
# which falls there, and the hand, which has borders, gain nothing by it.
_HOPEFUL = rows(_BODIES, critic_units="relu", optimism=3.0)
# On a plane without end, moreover, a particle is worth the distance to its neighbour itself, not its logarithm (order
# 1 - 1/7 with 7 features).
_FURTHER = (*_HOPEFUL, *rows(_BODIES, order=0.857))
# Where sides are alike: a gradient that knows it has less noise, and bears a step four times as large.
_ALIKE_SIDES = rows(_BODIES, symmetric=True, learning_rate=0.01)
# Where a step's worth is shared by 200 actions: the nearest neighbour and the next steps alone tell one from another.
_NEAREST = (
    *rows(_BODIES, k=1, discount=0.5, learning_rate=0.01, max_steps=2, minibatch=3000, clip=0.9, critic_steps=10),
    *rows(_BODIES, policy_kl=0.0, kl_threshold=1e9, max_entropy_drop=1e6, hidden=(16,), input_range=0.02),
)
_FAST: dict[str, Rows] = {
    "gridworld": (*_SMALL, *rows(_OURS, learning_rate=1.5e-4, epochs=40)),
    "mountain-car": (*_SMALL, *rows(_OURS, learning_rate=3e-4, k=50, eps=1e-6, epochs=150)),
    "ant": over(_CRITIC, *_LEAP, *_FURTHER, *_ALIKE_SIDES, *rows(_OURS, epochs=500)),
    "ant-maze": over(_GENERAL, *_LEAP, *_HOPEFUL, *rows(_BODIES, trajectories=20, k=4, epochs=260)),
    "gridworld-200d": (*_GENERAL, *_NEAREST, *rows(_BODIES, trajectories=5, epochs=80)),
    "humanoid": over(_CRITIC, *_LEAP, *_LOOSE, *rows(_BODIES, epochs=500)),
    "humanoid-xyz": over(_GENERAL, *_LEAP, *_LOOSE, *_ALIKE_SIDES, *rows(_BODIES, epochs=300)),
    "hand-reach": over(_GENERAL, *_LEAP, *_LOOSE, *rows(_BODIES, epochs=200)),
    "gridworld-slope": over(_SEVERAL, *rows(_WORLDS, learning_rate=5e-4, epochs=60)),
    "multigrid": over(_SEVERAL, *rows(_WORLDS, learning_rate=3e-4, epochs=60)),
    "hand-reach-fingertips": over(_GENERAL, *_LEAP, *_LOOSE, *rows(_BODIES, epochs=100)),
}
PRESETS |= {
    f"{name}-fast": Preset(
        f"{PRESETS[name].summary}; in a fraction of the time", over(PRESETS[name].rows, *changes), PRESETS[name].rivals
    )
    for name, changes in _FAST.items()
}


def fast(name: str, config: ExploreConfig) -> ExploreConfig:
    """What does as `config` does in a fraction of the time: tuned for the preset `name`, or else general settings."""
    tuned = _FAST.get(name, _SEVERAL if config.worlds.envs else _GENERAL)
    own = PRESETS[name].rivals.get(config.explorer, ()) if name in PRESETS else ()
    return built(config, over(tuned, *start_of(config.explorer), *own))


def general(config: ExploreConfig, *, limit: int | None = None, paper_rule: bool = False) -> ExploreConfig:
    """The start in an environment that has no preset: the general fast settings, or with the paper's rule.

    limit: steps of its episodes, where they have a limit: the horizon.
    """
    found: list[Row] = [*_UNKNOWN]
    if limit is not None:
        measured = min(100, max(10, round(_MEASURED_STEPS / limit)))
        found += rows("the environment's own limit", horizon=limit)
        found += rows(_OURS, trajectories=min(100, max(10, round(_EPOCH_STEPS / limit))))
        found += rows(_OURS, evaluation_trajectories=measured)
    if not paper_rule and config.explorer != "maxent":  # whose policies start as TRPO's do
        found += _GENERAL
    if not paper_rule and config.explorer == "mepol":
        found += rows("ours (docs/results/averaging.md)", average=0.7)
    return built(config, found)


def preset(name: str) -> Preset:
    """The preset called `name`, or a ConfigError that suggests the nearest."""
    if name in PRESETS:
        return PRESETS[name]
    near = get_close_matches(name, PRESETS, 1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(f"no preset or environment called {name!r}; {hint}presets: {', '.join(PRESETS)}")


def starting_config(
    name: str, *, explorer: str = "mepol", quick: bool = False, paper_rule: bool = False, **view: str
) -> ExploreConfig:
    """What a run of a preset, or of any other environment (envs/names.py), starts from before its own settings.

    quick: the settings of `fast`; a preset that is fast already stays as it is, and without a preset they are the
    default. paper_rule: the paper's rule instead, as the presets that are not fast have it.
    view: the settings `observations` and `encoder`, where pictures are observed.
    """
    if quick and paper_rule:
        raise ConfigError("fast and paper_rule exclude each other: leave one out")
    if name in PRESETS:
        config = PRESETS[name].config_for(explorer)
        config = fast(name, config) if quick and not name.endswith("-fast") else config
        return seeing(config, view)
    if ":" not in name and not is_known(name):
        raise ConfigError(f"no preset or environment is called {name!r}; {advice(name, PRESETS)}")
    config = with_settings(ExploreConfig(env=name), {"explorer": explorer})
    return seeing(general(config, limit=limit_of(name), paper_rule=paper_rule), view)

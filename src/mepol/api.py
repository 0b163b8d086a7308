"""The front door: explore, look, fine-tune, from Python. The command line does the same through the same rooms."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mepol.console.progress import telling
from mepol.envs.make import name_of
from mepol.errors import ConfigError
from mepol.evaluation.assess import Assessment, Protocol
from mepol.exploration import drive as exploring
from mepol.exploration.config import ExploreConfig
from mepol.exploration.explorers import Kind
from mepol.exploration.presets import PRESETS, Preset, settings_for
from mepol.exploration.presets import preset as find_preset
from mepol.exploration.workshop import GIVEN, Given
from mepol.run import Run, actor_of, measure
from mepol.runs.callbacks import Callback
from mepol.runs.directory import RunDirectory
from mepol.settings import with_settings

Features = str | Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]


def explore(
    what: Any,
    *,
    fast: bool = False,
    out: str | Path | None = None,
    seed: int = 0,
    epochs: int | None = None,
    features: Features | None = None,
    callbacks: Sequence[Callback] = (),
    env_kwargs: dict[str, Any] | None = None,
    progress: bool = True,
    **settings: Any,
) -> Run:
    """Learn one policy that covers the states of `what` evenly, without any reward.

    what: a preset (`mepol.presets()`), a Gymnasium id, a `gymnasium.Env` class, a factory () -> Env, or a function
    n -> VectorEnv. fast: settings that reach the same entropy in a fraction of the time, instead of the paper's.
    out: new directory of the run; by default a temporary one, which is named. features: what the entropy is of, as
    text (`"x,y"`, `"0:7"`) or as a function (N, S) states -> (N, D). callbacks: called after each epoch
    (`mepol.StopAt`). settings: any setting by its name (`k=10`, `horizon=400`, `hidden=(64, 64)`), and as objects
    `rule`, `policy`, `explorer`, `objective` (docs/extending.md).

    Whatever stops it, `mepol.resume(run.path)` goes on from its last checkpoint, to the same bits.

    >>> import mepol
    >>> run = mepol.explore("gridworld", fast=True, epochs=1, horizon=100, out="runs/first", progress=False)
    >>> len(run.metrics["index"])
    2
    """
    config, given = _configured(what, fast, seed, epochs, features, env_kwargs, settings)
    path = _place(out, "explore")
    with telling(progress, "epoch", config) as report:
        run = exploring.explore(config, path, given=given, callbacks=tuple(callbacks), report=report)
    return Run(run, given)


def _configured(
    what: Any,
    fast: bool,
    seed: int,
    epochs: int | None,
    features: Features | None,
    env_kwargs: dict[str, Any] | None,
    settings: dict[str, Any],
) -> tuple[ExploreConfig, Given]:
    """Settings and objects of an exploration, from what a user hands in."""
    objects: dict[str, Any] = {}
    for name in ("rule", "explorer"):
        if name in settings and not isinstance(settings[name], str):
            objects[name] = settings.pop(name)
    for name in ("policy", "objective"):
        if name in settings:
            objects[name] = settings.pop(name)
    if isinstance(what, str):
        config = settings_for(what, fast=fast, explorer=settings.pop("explorer", None))
    else:
        objects["env"] = what
        config = settings_for(f"{GIVEN}{name_of(what)}", fast=fast, explorer=settings.pop("explorer", None))
    changes: dict[str, Any] = {"seed": seed, **settings}
    if callable(features):
        objects["features"] = features
        changes["features"] = f"{GIVEN}{name_of(features)}"
    elif features is not None:
        changes["features"] = features
    if isinstance(objects.get("explorer"), Kind):
        changes["explorer"] = f"{GIVEN}{objects['explorer'].name}"
    if "rule" in objects:
        changes["rule"] = f"{GIVEN}{name_of(objects['rule'])}"
    if env_kwargs:
        changes["env_kwargs"] = dict(env_kwargs)
    if epochs is not None:
        changes[exploring.length_name(config, objects.get("explorer"))] = epochs
    return with_settings(config, changes), Given(**objects)

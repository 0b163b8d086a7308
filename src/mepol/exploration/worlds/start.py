"""What a run of several worlds starts from before its own settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mepol.exploration.config import ExploreConfig
from mepol.exploration.presets import fast, starting_config
from mepol.exploration.worlds.config import WorldsConfig
from mepol.exploration.worlds.files import asked_worlds
from mepol.settings import with_settings


def starting_worlds(
    envs: str | Path | Sequence[Mapping[str, Any]],
    name: str | None,
    *,
    explorer: str = "mepol",
    quick: bool = False,
    paper_rule: bool = False,
    **view: str,
) -> ExploreConfig:
    """The settings of the preset or environment `name` with the worlds `envs` in its place, and with what these say.

    Without a name they are those of the first world's environment, by the paper's rule: the one that takes several.
    view: `observations` and `encoder`, as of one environment.
    """
    asked = {**asked_worlds(envs), **view}
    if name is not None:
        start = starting_config(name, explorer=explorer, quick=quick, paper_rule=paper_rule)
        return with_settings(start, asked)
    start = starting_config(asked["env"], explorer=explorer, paper_rule=True)
    size = asked.get("world_trajectories", WorldsConfig.world_trajectories)
    if isinstance(size, int) and size > 0:  # as many as the environment's limit suggests, in whole mini-batches
        start = dataclasses.replace(start, trajectories=-(-start.trajectories // size) * size)
    config = with_settings(start, asked)
    return with_settings(fast("", config), asked) if quick else config

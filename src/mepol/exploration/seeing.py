"""What settings become where pictures are observed.

An embedding has no coordinates to choose and no ceiling, its volumes are powers of 64, and a mirrored network is a
common start without a regression over all pictures that there could be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mepol.envs.layout import AUTO
from mepol.exploration.config import ExploreConfig
from mepol.settings import Rows, rows, with_settings

_OURS = "ours (docs/method/images.md)"
PICTURES = (
    *rows(_OURS, features="all", scale_features="off", coinciding="refuse", eps=0.0, ceiling=None),
    *rows(_OURS, max_entropy_drop=1000.0, mirror=True, zero_mean_steps=0, scale_inputs=False, standardise=False),
)


def picture_rows(asked: Mapping[str, Any]) -> Rows:
    """What changes where settings ask for pictures: nothing where they do not."""
    pictures = asked.get("observations") == "pixels" or asked.get("encoder") == "random"
    return PICTURES if pictures else ()


def seeing(config: ExploreConfig, view: Mapping[str, Any]) -> ExploreConfig:
    """`config` with pictures observed, where `view`, the settings `observations` and `encoder`, asks for them."""
    changes = {row.setting: row.value for row in picture_rows(view)}
    if changes and config.evaluation.heatmap_axes == AUTO:
        changes["heatmap_axes"] = "0,1"
    return with_settings(config, {**changes, **view})

"""What an epoch of several environments costs, beside a plain one of as many samples: at most 1.3 times as much.

The same network climbs as many steps from as many particles; what differs are two worlds that are sampled in turn,
neighbours that are sought within mini-batches, and Eq. 2 and Eq. 3 of each of these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import ExitStack

from bench.epoch import Timing, alternate
from mepol.exploration.config import ExploreConfig
from mepol.exploration.learner import MepolExplorer
from mepol.exploration.presets import preset
from mepol.exploration.workshop import open_workshop
from mepol.exploration.worlds.config import WorldsConfig
from mepol.runs.machine import threads_in_force
from mepol.settings import with_settings

SIZE = {"trajectories": 20, "max_steps": 2}  # a tenth of the published samples and a few of its steps: seconds an epoch


def bench_worlds(name: str = "gridworld-slope", *, repetitions: int = 5) -> Timing:
    """Time a whole epoch of the preset `name`; its floor is an epoch in its first world alone."""
    several = with_settings(preset(name).config, SIZE)
    plain = dataclasses.replace(several, worlds=WorldsConfig())
    with threads_in_force(several.machine), ExitStack() as stack:
        work, floor = (_epochs(config, stack) for config in (several, plain))
        return alternate(name, "epoch", work, floor, repetitions)


def _epochs(config: ExploreConfig, stack: ExitStack) -> Callable[[], object]:
    explorer = MepolExplorer(stack.enter_context(open_workshop(config)))
    return lambda: explorer.improve(0)  # each call is the next epoch

"""What an option adds to an epoch: whole epochs with it beside whole epochs without, in turn.

    option          settings                                    particles in Eq. 2
    horizon-start   a curriculum in its first stage, T_0 = T/8  the same
    reuse           the last 2 batches, each of half the size   the same
    state-discount  gamma = 0.99                                the same

Each may cost at most `BOUND` times the plain epoch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench.epoch import Timing, alternate
from mepol.exploration.config import ExploreConfig
from mepol.exploration.learner import MepolExplorer
from mepol.exploration.presets import preset
from mepol.exploration.workshop import open_workshop
from mepol.runs.machine import threads_in_force
from mepol.settings import with_settings

BOUND = 1.3
DOMAINS = ("mountain-car-fast",)
OPTIONS: dict[str, Callable[[ExploreConfig], dict[str, Any]]] = {
    "horizon-start": lambda config: {"horizon_start": config.horizon // 8},
    "reuse": lambda config: {"reuse": 2, "trajectories": config.trajectories // 2},
    "state-discount": lambda _: {"state_discount": 0.99},
}


def bench_option(name: str, option: str, *, repetitions: int = 5) -> Timing:
    """Time epochs of the preset `name` with and without an option; the plain epoch is the floor."""
    config = preset(name).config
    changed = with_settings(config, OPTIONS[option](config))
    with threads_in_force(config.machine), _epochs(changed) as ours, _epochs(config) as plain:
        return alternate(name, option, ours, plain, repetitions)


@contextmanager
def _epochs(config: ExploreConfig) -> Iterator[Callable[[], object]]:
    """What works through the next epoch of a run that leaves no files."""
    with open_workshop(config) as workshop:
        explorer, numbers = MepolExplorer(workshop), itertools.count()
        yield lambda: explorer.improve(next(numbers))

"""A stored run's policy measured afresh: where it explored, or in every world that it explored."""

from __future__ import annotations

import dataclasses
from typing import Any

from mepol.envs.domain import Domain
from mepol.envs.reachable import reachable_cells
from mepol.evaluation.assess import Assessment, Protocol, assess
from mepol.exploration.worlds.measures import gathered
from mepol.exploration.worlds.workshop import world_configs
from mepol.runs.directory import RunDirectory
from mepol.runs.machine import threads_in_force
from mepol.runs.streams import Stream, stream
from mepol.sampling.actors import Explorer


def assess_anew(
    run: RunDirectory[Any, Any], given: Any, domain: Domain, actor: Explorer, protocol: Protocol, seed: int
) -> Assessment:
    """Measure `actor` by `protocol` on trajectories of this seed, which no training used.

    given: objects that were handed in; of a run of several worlds the result is that of all, with each in `worlds`.
    """
    config = run.config

    def within(own: Any, here: Domain) -> Assessment:
        with run.phase.environments(own, given) as environments:
            env = environments.of(protocol.trajectories)
            here.require_fit(env)
            if own is not config and here.grid is not None:  # a world has walls of its own
                here = dataclasses.replace(here, reachable=reachable_cells(env, here.grid))
            return assess(actor, env, here, protocol, seed=stream(seed, Stream.FRESH))

    with threads_in_force(config.machine):
        if not (worlds := getattr(config, "worlds", None)) or not worlds.envs:
            return within(config, domain)
        return gathered({name: within(own, domain) for name, own in world_configs(config).items()}, worlds)

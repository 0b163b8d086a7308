"""The explorers that are shipped, each in one line."""

from __future__ import annotations

from mepol.exploration.explorers import Explorer, Kind, register
from mepol.exploration.learner import MepolExplorer
from mepol.exploration.maxent.config import MaxEntConfig
from mepol.exploration.rivals.config import AptConfig, Re3Config, RndConfig
from mepol.exploration.still import random_explorer, uniform_explorer
from mepol.exploration.workshop import Workshop


def _maxent(workshop: Workshop) -> Explorer:
    from mepol.exploration.maxent.explorer import MaxEntExplorer  # its dependencies are an extra

    return MaxEntExplorer(workshop)


def _rival(workshop: Workshop) -> Explorer:
    from mepol.exploration.rivals.ppo import PpoRival  # their dependencies are an extra
    from mepol.exploration.rivals.sac import SacRival

    return (SacRival if workshop.config.rival.learner == "sac" else PpoRival)(workshop)


def _still(name: str, summary: str, make: object) -> Kind:
    def describe(_: object) -> str:
        return f"{name} actions: nothing is learnt, only measured"

    return Kind(name, summary, make, length=lambda _: 0, length_name="", describe=describe)  # type: ignore[arg-type]


for _kind in (
    Kind("mepol", "one policy that climbs the entropy of the states it visits", MepolExplorer),
    _still("random", "the policy that mepol starts from, untrained", random_explorer),
    _still("uniform", "uniform actions", uniform_explorer),
    Kind(
        "maxent",
        "MaxEnt (Hazan et al. 2019): a mixture that grows by one policy per round",
        _maxent,
        length=lambda config: config.rival.mixture_size,
        length_name="mixture_size",
        settings=MaxEntConfig,
        describe=lambda c: (
            f"maxent: {c.rival.mixture_size} rounds of {c.rival.trpo_iterations} TRPO updates of {c.rival.trpo_steps} "
            f"steps, density of {c.rival.density_trajectories} x {c.rival.density_horizon} steps"
        ),
        evaluates_always=True,
    ),
    Kind(
        "apt",
        "APT (Liu and Abbeel 2021): PPO or SAC, paid by distances in ICM's embedding",
        _rival,
        settings=AptConfig,
    ),
    Kind("re3", "RE3 (Seo et al. 2021): PPO or SAC, paid by distances in a random one", _rival, settings=Re3Config),
    Kind("rnd", "RND (Burda et al. 2018): PPO or SAC, paid by errors about a random net", _rival, settings=RndConfig),
):
    register(_kind)

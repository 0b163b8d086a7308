"""What one exploration works with: its environments, each size made once, and what they say of themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from mepol.algorithm.batch import Batch
from mepol.envs.contract import check_same_spaces
from mepol.envs.domain import Domain
from mepol.envs.layout import Asked
from mepol.envs.make import Environments
from mepol.envs.survey import Survey
from mepol.errors import ConfigError
from mepol.evaluation.assess import Assessment, Protocol, assess
from mepol.exploration.config import ExploreConfig
from mepol.neighbours import Workers
from mepol.runs.streams import Stream, stream
from mepol.sampling.actors import random_play
from mepol.sampling.collect import Actor, collect
from mepol.sampling.sampler import Sampler
from mepol.settings import GIVEN, require, require_handed, with_settings

Batches = Callable[[int], VectorEnv[Any, Any, Any]]
"""Makes n copies of an environment in one batch."""
MAX_PICTURES = 2 << 30  # bytes of a batch: twice as many are held while it is read
SURVEYED, SURVEY_STEPS = 10, 500  # trajectories of random play, and steps of each, at most
FEW = 2  # features, up to which more neighbours make what a step is worth surer, and blur little (results/one-set)
NEIGHBOURS, MOST_NEIGHBOURS, PARTICLES_PER_NEIGHBOUR = 4, 50, 200


@dataclass(frozen=True)
class Given:
    """Objects that cannot be stored in a config.json: whoever resumes such a run hands them in again.

    env: an environment class, a factory () -> Env or n -> VectorEnv; features: (N, S) states -> (N, D);
    policy: (state_dim, action_dim) -> a policy; rule: an ascent rule; explorer: a kind of explorer;
    objective: what takes the place of the neighbour search, (batch, domain) -> a landscape;
    sampler: who draws batches and searches neighbours instead of this process, which changes no number: it may be
    another one, or none, when the run is resumed.
    """

    env: Any = None
    features: Callable[..., Any] | None = None
    policy: Callable[[int, int], Any] | None = None
    rule: Any = None
    explorer: Any = None
    objective: Callable[[Batch, Domain], Any] | None = None
    sampler: Sampler | None = None


NOTHING = Given()


def require_objects(config: ExploreConfig, given: Given) -> None:
    """ConfigError unless exactly those objects are handed in that the settings name: a run never changes its parts."""
    settings = {
        "env": config.env,
        "features": config.features,
        "explorer": config.explorer,
        "rule": config.ascent.rule,
        "policy": config.policy_class,
        "objective": config.objective,
    }
    for name, text in settings.items():
        require_handed(name, text, getattr(given, name))
        if getattr(given, name) is not None and not text.startswith(GIVEN):
            raise ConfigError(f"{name} is {text!r} in this run's settings: it cannot be exchanged for an object")


@dataclass(frozen=True)
class Workshop:
    """Environment, domain and settings of one run."""

    config: ExploreConfig
    environments: Environments
    domain: Domain
    given: Given
    tell: Callable[[str], None] = lambda _: None
    """Takes a sentence for the user."""
    start: Any = None
    """The policy that `init` names, or None."""

    def env(self, num_envs: int) -> VectorEnv[Any, Any, Any]:
        """`num_envs` copies of the environment; the same ones each time."""
        return self.environments.of(num_envs)

    def collect(self, actor: Actor, num_envs: int, horizon: int, seed: np.random.SeedSequence) -> Batch:
        """Trajectories of `actor`, one from each of `num_envs` copies."""
        sampler = self.given.sampler
        env = self.env(1 if sampler else num_envs)
        self.require_same(env)
        if sampler:
            return sampler.collect(actor, self.environments, num_envs, horizon, seed=seed)
        return collect(actor, env, horizon, seed=seed, time_limit=self.config.machine.env_time_limit)

    @property
    def workers(self) -> Workers:
        """Who searches neighbours: the sampler, or threads of this process."""
        return self.given.sampler or self.config.machine.cores

    def assess(self, actor: Actor, seed: np.random.SeedSequence, protocol: Protocol | None = None) -> Assessment:
        """Measure `actor` on fresh trajectories, by default as the run itself does."""
        protocol = protocol or protocol_of(self.config)
        protocol = dataclasses.replace(protocol, workers=self.workers)
        if not self.given.sampler:
            env = self.env(protocol.trajectories)
            self.require_same(env)
            return assess(actor, env, self.domain, protocol, seed=seed)

        def draw(acting: Actor, steps: int) -> Batch:
            return self.collect(acting, protocol.trajectories, steps, seed)

        return assess(actor, self.env(1), self.domain, protocol, seed=seed, draw=draw)

    def require_same(self, env: VectorEnv[Any, Any, Any]) -> None:
        """EnvironmentFault where the environment is no longer what it was when the run began."""
        check_same_spaces(env, self.domain.space, (self.domain.action_dim,), self.domain.choices)


def protocol_of(config: ExploreConfig, trajectories: int | None = None) -> Protocol:
    """How a run of `config` is measured: with its own horizon, k and eps."""
    return Protocol(
        trajectories=trajectories or config.evaluation.evaluation_trajectories,
        horizon=config.horizon,
        k=config.ascent.k,
        eps=config.ascent.eps,
        discount=config.ascent.state_discount,
        workers=config.machine.cores,
        time_limit=config.machine.env_time_limit,
    )


@contextmanager
def open_workshop(
    config: ExploreConfig,
    given: Given = NOTHING,
    domain: Domain | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[Workshop]:
    """The environments of a run; every fault of settings and environment is named here, before anything is written.

    domain: what is stored of it, for a run that exists; else it is read off the environment, and `tell` is told what
    was chosen for the user.
    """
    require_objects(config, given)
    if config.worlds.envs:
        from mepol.exploration.worlds.workshop import open_worlds  # which is made of workshops

        with open_worlds(config, given, domain, tell) as several:
            yield several
        return
    with environments_of(config, given) as environments, given.sampler or nullcontext():
        env = environments.of(1 if given.sampler else config.trajectories)
        if domain is None:
            domain = domain_of(env, config, given, survey_of(environments.of, config, given))
            for note in domain.notes:
                tell(note)
        require_room(config, domain)
        workshop = Workshop(settled(config, domain, tell), environments, domain, given, tell)
        workshop.require_same(env)
        yield workshop


def settled(config: ExploreConfig, domain: Domain, tell: Callable[[str], None] = lambda _: None) -> ExploreConfig:
    """`config` with a number of neighbours, where it leaves that to the features; `tell` is told of many."""
    if config.ascent.k:
        return config
    size = config.horizon * config.worlds.size(config.trajectories)
    k, features = NEIGHBOURS, len(domain.widths)
    if features <= FEW and not callable(domain.features) and not domain.tabular:
        k = min(max(k, size // PARTICLES_PER_NEIGHBOUR), MOST_NEIGHBOURS)
    k = min(k, size - 1, config.horizon * config.evaluation.evaluation_trajectories - 1)
    if k > NEIGHBOURS:
        tell(f"k = {k} neighbours: many, since the entropy is of {features} feature{'s' * (features > 1)}; --k sets it")
    return with_settings(config, {"k": k})


def require_room(config: ExploreConfig, domain: Domain) -> None:
    """ConfigError where the pictures of a batch, or of an evaluation, are more than MAX_PICTURES bytes."""
    if domain.picture is None:
        return
    for name, many in (
        ("trajectories", config.trajectories),
        ("evaluation_trajectories", config.evaluation.evaluation_trajectories),
    ):
        size = many * (config.horizon + 1) * domain.picture.size
        most = f"so few that {config.horizon} steps each of {domain.picture.size} bytes per picture stay below"
        require(size <= MAX_PICTURES, name, many, f"{most} {MAX_PICTURES / 2**30:g} GiB, not {size / 2**30:.1f} GiB")


def environments_of(config: ExploreConfig, given: Given | None = None) -> Environments:
    """What makes the environments of a run."""
    machine, env = config.machine, None if given is None else given.env
    require_handed("env", config.env, env)
    return Environments(
        config.env if env is None else env,
        kwargs=config.env_kwargs,
        ignore_termination=config.ignore_termination,
        unit_actions=config.unit_actions,
        wrappers=config.wrappers,
        seen=config.seen,
        time_limit=machine.env_time_limit,
        threads=machine.threads,
    )


def domain_of(
    env: VectorEnv[Any, Any, Any], config: ExploreConfig, given: Given = NOTHING, survey: Survey | None = None
) -> Domain:
    """What `env` says of itself under the settings of a run."""
    seed = int(stream(config.seed, Stream.ENCODER).generate_state(1)[0])
    return Domain.of(env, name=config.env, survey=survey, encoder_seed=seed, **vars(_asked(config, given)))


def survey_of(batch_of: Batches, config: ExploreConfig, given: Given = NOTHING) -> Survey | None:
    """Random play, where the settings leave something to it; the same for every seed, so that runs can be compared."""
    return play(batch_of, config) if _asked(config, given).needs_survey else None


def play(batch_of: Batches, config: ExploreConfig, steps: int = SURVEY_STEPS) -> Survey:
    """Random play: a few trajectories of at most `steps` steps, uniform over the actions where these are bounded."""
    env = batch_of(SURVEYED)
    actor = random_play(env)
    horizon = min(config.horizon, steps)
    batch = collect(actor, env, horizon, seed=stream(0, Stream.SURVEY), time_limit=config.machine.env_time_limit)
    least = int(batch.lengths.min())  # where episodes may end early: as far as all of them go
    return Survey(batch.states[:, : least + 1])


def _asked(config: ExploreConfig, given: Given) -> Asked:
    evaluation = config.evaluation
    return Asked(
        features=config.features if given.features is None else given.features,
        scale_features=config.scale_features,
        coinciding=config.coinciding,
        heatmap_axes=evaluation.heatmap_axes,
        heatmap_low=evaluation.heatmap_low,
        heatmap_high=evaluation.heatmap_high,
        heatmap_bins=evaluation.heatmap_bins,
        ceiling=config.ceiling,
    )

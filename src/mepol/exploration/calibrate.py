"""What random play suggests for an environment: a value for each setting that matters, and why.

The features, units and heatmap are those of the survey that `explore` makes by itself (envs/survey.py); beyond it, the
noise of the first policy is tried: how far it spreads, and how much of one step's noise is left in the next.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mepol.algorithm.policy import GaussianPolicy
from mepol.envs.coordinates import label_of
from mepol.envs.domain import Domain
from mepol.envs.survey import Survey
from mepol.estimators import entropy
from mepol.exploration.config import ExploreConfig
from mepol.exploration.policies import make_policy
from mepol.exploration.workshop import (
    FEW,
    NOTHING,
    SURVEY_STEPS,
    SURVEYED,
    Given,
    Workshop,
    domain_of,
    environments_of,
    play,
    settled,
)
from mepol.runs.machine import threads_in_force
from mepol.runs.streams import Stream, stream
from mepol.settings import with_settings

CORRELATIONS = (0.0, 0.5, 0.8, 0.95)
LOG_STDS = (-0.5, 0.0)
WORTH = 0.1  # nats by which the noise must raise the index for it to be proposed


@dataclass(frozen=True)
class Suggestion:
    """One setting, the value proposed for it, and why."""

    setting: str
    value: Any
    reason: str


@dataclass(frozen=True)
class Calibration:
    """All suggestions for one environment."""

    env: str
    suggestions: tuple[Suggestion, ...]
    notes: tuple[str, ...]
    steps: int
    """Steps that were played to find them."""

    @property
    def settings(self) -> dict[str, Any]:
        """The suggested values by setting."""
        return {row.setting: row.value for row in self.suggestions}

    def to_toml(self) -> str:
        """A study of one variant, which `mepol explore` and `mepol sweep` take."""
        lines = [
            f"# proposed by mepol calibrate after {self.steps} steps",
            f"env = {_toml(self.env)}",
            "",
            "[settings]",
        ]
        lines += [f"{row.setting} = {_toml(row.value)}  # {row.reason}" for row in self.suggestions]
        return "\n".join(lines) + "\n"


def calibrate(
    config: ExploreConfig, given: Given = NOTHING, progress: Callable[[int, int, str], None] = lambda *_: None
) -> Calibration:
    """Play at random in the environment of `config`, then with some noises of its first policy, and propose.

    progress(done, total, text) is called after each of these plays.
    """
    trials = list(itertools.product(CORRELATIONS, LOG_STDS))
    with threads_in_force(config.machine), environments_of(config, given) as environments:
        survey = play(environments.of, config)
        domain = domain_of(environments.of(SURVEYED), config, given, survey)
        config = settled(config, domain)
        progress(1, 1 + len(trials), "random play")
        workshop = Workshop(config, environments, domain, given)
        found: dict[tuple[float, float], float] = {}
        steps = survey.size
        if isinstance(make_policy(config, domain), GaussianPolicy):
            for number, (rho, log_std) in enumerate(trials):
                found[rho, log_std] = _index(workshop, rho, log_std, number)
                steps += survey.size
                progress(2 + number, 1 + len(trials), f"correlation {rho:g}, log-std {log_std:g}")
    suggestions = (*_of_features(survey, domain), *_of_lengths(config, domain), *_of_noise(found))
    return Calibration(config.env, suggestions, domain.notes, steps)


def _index(workshop: Workshop, rho: float, log_std: float, number: int) -> float:
    """Entropy, in nats, of what the first policy visits with this noise."""
    config = with_settings(workshop.config, {"noise_correlation": rho, "log_std": log_std})
    policy = make_policy(config, workshop.domain)
    steps = min(config.horizon, SURVEY_STEPS)
    batch = workshop.collect(policy, SURVEYED, steps, stream(0, Stream.SURVEY, 1 + number))
    ascent = config.ascent
    return entropy(workshop.domain.search(batch, ascent.k, eps=ascent.eps, workers=config.machine.cores))


def _of_features(survey: Survey, domain: Domain) -> list[Suggestion]:
    found = []
    features = domain.features
    if not callable(features):
        all_of_them = features == tuple(range(domain.state_dim))
        text = "all" if all_of_them else ",".join(label_of(feature, domain.names) for feature in features)
        left = domain.state_dim - sum(2 if isinstance(feature, tuple) else 1 for feature in features)
        reason = f"{left} coordinates stand still or repeat others" if left else "every coordinate moves"
        found.append(Suggestion("features", text, reason))
    uneven = len(set(domain.widths)) > 1
    spreads = survey.spread[survey.spread > 0]
    ratio = float(spreads.max() / spreads.min()) if len(spreads) else 1.0
    found.append(
        Suggestion("scale_features", "spread" if uneven else "off", f"spreads differ by a factor of {ratio:.3g}")
    )
    apart = f"states nearer than {domain.floor:.2g} count as one place"
    found.append(Suggestion("coinciding", "floor", "states are counted" if domain.tabular else apart))
    if domain.grid is not None:
        grid = domain.grid
        furthest = "the only one" if grid.line else "these two reach furthest in random play"
        found.append(Suggestion("heatmap_axes", ",".join(grid.names[: grid.shown]), furthest))
        found.append(Suggestion("heatmap_low", list(grid.low), "bounds, or four times what random play reached"))
        found.append(Suggestion("heatmap_high", list(grid.high), "the same"))
    return found


def _of_lengths(config: ExploreConfig, domain: Domain) -> list[Suggestion]:
    size, count = config.horizon * config.trajectories, len(domain.widths)
    why = "few features: smooth" if count <= FEW else f"{count} features: sharp: many would blur so many dimensions"
    return [
        Suggestion("horizon", config.horizon, "the environment's own limit, or 500 where it has none"),
        Suggestion("trajectories", config.trajectories, f"{size} steps per batch"),
        Suggestion("k", config.ascent.k, why),
        Suggestion("rule", config.ascent.rule, "a critic needs the fewest samples where nothing was tuned"),
    ]


def _of_noise(found: dict[tuple[float, float], float]) -> list[Suggestion]:
    if not found:
        return []
    plain = CORRELATIONS[0], LOG_STDS[0]
    best = max(found, key=lambda noise: found[noise])
    chosen = best if found[best] >= found[plain] + WORTH else plain
    reason = (
        f"index {found[chosen]:.2f} before any learning, {found[plain]:.2f} with white noise of log-std {plain[1]:g}"
    )
    return [Suggestion("noise_correlation", chosen[0], reason), Suggestion("log_std", chosen[1], "the same trial")]


def _toml(value: Any) -> str:
    """A text, number or list of numbers as TOML, which here is written as JSON is."""
    return json.dumps(value)

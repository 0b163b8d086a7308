"""Run what is missing for some figures: study after study, each by the engine of `mepol sweep`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mepol.errors import MepolError
from mepol.exploration.processes import Processes
from mepol.exploration.study import Member
from mepol.exploration.sweep import Engine, Outcome, run_members
from mepol.reproduce.studies import Scale, Study, find_study

Engines = Callable[[], Engine]
"""Makes what works off the explorations of a study; tasks are worked off by processes of this machine."""


@dataclass(frozen=True)
class Asked:
    """What is to be there: the folder of all studies, how large, how many seeds (None: the scale's)."""

    root: Path
    scale: Scale
    seeds: int | None = None

    def members(self, study: Study, variants: set[str]) -> list[Member]:
        """Every run of some variants of a study."""
        return study.members(self.root, self.scale, self.scale.seeds(study, self.seeds), variants)


def run_missing(
    needs: Mapping[str, set[str]],
    asked: Asked,
    jobs: int,
    *,
    report: Callable[[Study, Sequence[Outcome]], None] = lambda study, outcomes: None,
    engines: Engines = Processes,
) -> list[str]:
    """Work off every study of `needs` (study -> variants, explorations first); returns a sentence per failure.

    Finished runs are skipped and begun ones resumed. Whatever fails, the others go on.
    """
    faults = []
    for name, variants in needs.items():
        study = find_study(name)
        try:
            members = asked.members(study, variants)
        except MepolError as fault:  # what its tasks start from never came to be
            faults.append(f"{name} cannot begin: {fault}")
            continue
        explores = all(member.module == Member.module for member in members)
        tell = partial(report, study)
        outcomes = run_members(members, engines() if explores else Processes(), jobs, tell)
        faults += [f"{name}/{o.member.name}: {o.reason}" for o in outcomes if o.state == "failed"]
    return faults

"""Run what is missing for some figures: study after study, each by the engine of `mepol sweep`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mepol.errors import MepolError
from mepol.exploration.study import Member
from mepol.exploration.sweep import Outcome, run_members
from mepol.reproduce.studies import Scale, Study, find_study

Report = Callable[[Sequence[Outcome]], None]
Engine = Callable[[Sequence[Member], int, Report], list[Outcome]]
"""What works off members of one folder: those, how many at a time, and whom to tell."""


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
    engine: Engine = run_members,
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
        outcomes = engine(members, jobs, lambda outcomes, study=study: report(study, outcomes))  # type: ignore[misc]
        faults += [f"{name}/{o.member.name}: {o.reason}" for o in outcomes if o.state == "failed"]
    return faults

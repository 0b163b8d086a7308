"""Every figure and table of the paper by its name: which runs it shows, what of them, and what the paper printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from mepol.errors import ConfigError
from mepol.reproduce.studies import Study, find_study, studies, tables


@dataclass(frozen=True)
class Figure:
    """A `[[figure]]` of a study's file."""

    file: str
    data: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What it is asked for by."""
        return str(self.data["name"])

    @property
    def studies(self) -> tuple[Study, ...]:
        """Whose runs it shows: by default those of its own file."""
        return tuple(find_study(name) for name in self.data.get("studies", (self.file,)))

    def variants(self, study: Study) -> list[str]:
        """Those of a study that it shows."""
        return [name for name in study.variants if name in self.data.get("variants", study.variants)]

    @property
    def levels(self) -> Mapping[str, float]:
        """What the paper printed, by variant."""
        found: Mapping[str, float] = self.data.get("levels", {})
        return found

    def setting(self, name: str, scale: str, default: Any = None) -> Any:
        """One of its own settings, at a scale."""
        return self.data.get(scale, {}).get(name, self.data.get(name, default))


@cache
def figures() -> dict[str, Figure]:
    """All of them, by name."""
    found = [Figure(file, data) for file, table in tables().items() for data in table.get("figure", ())]
    return {figure.name: figure for figure in found}


def chosen(names: Sequence[str]) -> list[Figure]:
    """The figures called so; `all`, or none at all, for every one."""
    if not names or "all" in names:
        return list(figures().values())
    for name in names:
        if name not in figures():
            near = get_close_matches(name, figures(), 1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(f"no figure {name[:80]!r}; {hint}there are {', '.join(figures())}")
    return [figures()[name] for name in dict.fromkeys(names)]


def needed(wanted: Sequence[Figure]) -> dict[str, set[str]]:
    """Study -> variants that the figures show or start from, explorations first."""
    found: dict[str, set[str]] = {}
    for figure in wanted:
        for study in figure.studies:
            for variant in figure.variants(study):
                found.setdefault(study.name, set()).add(variant)
                if variant in study.starts:
                    start, name = study.starts[variant]
                    found.setdefault(start, set()).add(name)
    return {name: found[name] for name in studies() if name in found}

"""The paper's experiments as files (data/*.toml): the runs of each, how long they are at each scale, what is drawn.

preset = "ant"                   # an exploration; or tasks = ["ant-jump"], of fine-tuning
seeds = 8                        # the paper's
cost = { fast = 0.28, ... }      # milliseconds per sample, one core of the machine of `expected.REFERENCE`
[quick.mepol]                    # settings at a scale, besides those of scales.toml: of `every` or one explorer,
epochs = 80                      # of fine-tuning `task`, `trpo`, `sac`
[[variant]]
name = "mepol"                   # its own settings follow; `smoke`, `quick`, `paper`: tables that hold there alone
[[figure]]
name = "fig-ant"                 # catalogue.py
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from mepol.errors import ConfigError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.presets import starting_config
from mepol.exploration.study import Member
from mepol.exploration.workshop import protocol_of
from mepol.finetuning.asked import after, measured_by
from mepol.finetuning.config import FinetuneConfig
from mepol.finetuning.presets import default_config
from mepol.finetuning.tasks import TASKS
from mepol.run import Run
from mepol.settings import with_settings

SCALES = ("smoke", "quick", "paper")
_OWN = ("name", "explorer", "algo", "init", *SCALES)
TASK_MODULE = "mepol.reproduce.task"
"""What the process of a fine-tuning run is."""


@cache
def tables() -> dict[str, dict[str, Any]]:
    """Every data file by its name."""
    folder = resources.files("mepol.reproduce") / "data"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)
    return {f.name.removesuffix(".toml"): tomllib.loads(f.read_text()) for f in files}


@cache
def studies() -> dict[str, Study]:
    """Every study that has runs, explorations before the tasks that start from them."""
    found = [Study(name, data) for name, data in tables().items() if "variant" in data]
    return {study.name: study for study in sorted(found, key=lambda study: study.is_task)}


@dataclass(frozen=True)
class Scale:
    """How large everything is."""

    name: str

    @property
    def data(self) -> Mapping[str, Any]:
        """Its table."""
        found: Mapping[str, Any] = tables()["scales"][self.name]
        return found

    @property
    def fast(self) -> bool:
        """Whether explorations have the settings of `--fast`."""
        return bool(self.data["fast"])

    def seeds(self, study: Study, asked: int | None = None) -> int:
        """Seeds of a study: as many as were asked for, as the scale has, or as the paper has."""
        return int(asked or self.data.get("seeds", study.data["seeds"]))


PAPER = Scale("paper")


@dataclass(frozen=True)
class Study:
    """Variants of one experiment, each with any number of seeds."""

    name: str
    data: Mapping[str, Any]

    @property
    def is_task(self) -> bool:
        """Whether its runs are of fine-tuning."""
        return "tasks" in self.data

    @property
    def variants(self) -> dict[str, Mapping[str, Any]]:
        """By name, in order."""
        return {variant["name"]: variant for variant in self.data["variant"]}

    @property
    def starts(self) -> dict[str, tuple[str, str]]:
        """Variant -> study and variant of the exploration that it starts from."""
        found = {name: variant["init"].split("/") for name, variant in self.variants.items() if variant.get("init")}
        return {name: (study, start) for name, (study, start) in found.items()}

    def exploration(self, variant: str, scale: Scale) -> ExploreConfig:
        """Settings of one variant. Whatever explores is measured with the k and eps of MEPOL: indices share a scale."""
        own = self.variants[variant]
        explorer, preset = own.get("explorer", "mepol"), self.data["preset"]
        plain = explorer in ("mepol", "random", "uniform")
        config = starting_config(preset, explorer=explorer, quick=scale.fast and plain)
        if scale.fast and not plain:
            ascent = starting_config(preset, quick=True).ascent
            config = with_settings(config, {"k": ascent.k, "eps": ascent.eps})
        return with_settings(config, self._settings(variant, scale, ("every", explorer)))

    def task(self, task: str, variant: str, scale: Scale) -> FinetuneConfig:
        """Settings of one learner on one task, before it is known what it starts from."""
        algo = self.variants[variant]["algo"]
        config = with_settings(default_config(task), {"algo": algo})
        return with_settings(config, self._settings(variant, scale, ("task", config.section)))

    def _settings(self, variant: str, scale: Scale, rooms: tuple[str, ...]) -> dict[str, Any]:
        """The scale's, then the study's at that scale, then the variant's own, then those it has at that scale."""
        own = self.variants[variant]
        found: dict[str, Any] = {}
        for table in (scale.data, self.data.get(scale.name, {})):
            for room in rooms:
                found |= table.get(room, {})
        return {**found, **{k: v for k, v in own.items() if k not in _OWN}, **own.get(scale.name, {})}

    def samples(self, variant: str, scale: Scale) -> int:
        """Environment steps that one run of a variant learns from; 0 where nothing is learnt."""
        if self.is_task:
            return sum(c.iterations * c.steps for c in (self.task(t, variant, scale) for t in self.data["tasks"]))
        config = self.exploration(variant, scale)
        if config.explorer in ("random", "uniform"):
            return 0
        if config.explorer == "maxent":
            rival = config.rival
            return int(rival.mixture_size * rival.trpo_iterations * rival.trpo_steps)
        return config.epochs * config.trajectories * config.horizon

    def members(self, root: Path, scale: Scale, seeds: int, only: set[str] | None = None) -> list[Member]:
        """Runs of the variants in `only` (None: all) below the folder `root` of all studies, one thread each.

        What tasks start from must be there already: its settings say how they are measured.
        """
        chosen = [name for name in self.variants if only is None or name in only]
        make = self._task_members if self.is_task else self._exploration_members
        return [member for name in chosen for seed in range(seeds) for member in make(root, name, scale, seed)]

    def _exploration_members(self, root: Path, variant: str, scale: Scale, seed: int) -> list[Member]:
        config = with_settings(self.exploration(variant, scale), {"seed": seed, "threads": 1})
        return [Member(variant, config, self.place(root, variant, seed))]

    def _task_members(self, root: Path, variant: str, scale: Scale, seed: int) -> list[Member]:
        found = []
        for task in self.data["tasks"]:
            config = with_settings(self.task(task, variant, scale), {"seed": seed, "threads": 1})
            place = self.place(root, variant, seed, task)
            found.append(Member(f"{task}-{variant}", self._begun(config, root, variant), place, TASK_MODULE))
        return found

    def _begun(self, config: FinetuneConfig, root: Path, variant: str) -> FinetuneConfig:
        """`config` as the run will store it, with its start."""
        if variant not in self.starts:
            like = starting_config(TASKS[config.task].explorer)
            return measured_by(config, protocol_of(like))
        study, start = self.starts[variant]
        explored = Run.open(studies()[study].place(root, start, config.seed))
        return after(with_settings(config, {"init": str(explored.path)}), explored.config, explored.protocol)

    def place(self, root: Path, variant: str, seed: int, task: str = "") -> Path:
        """Directory of one run."""
        return root / self.name / f"{task}{'-' if task else ''}{variant}-seed-{seed}"


def find_study(name: str) -> Study:
    """The study called `name`."""
    if name not in studies():
        raise ConfigError(f"no study {name!r}; there are {', '.join(studies())}")
    return studies()[name]

"""What a figure needs, what of it is there, and about how long the rest takes on this machine."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import torch

from mepol.errors import MepolError
from mepol.reproduce.studies import Study, find_study
from mepol.reproduce.work import Asked
from mepol.runs.directory import RunDirectory

REFERENCE = 0.020
"""Seconds of `benchmark` on the machine that the costs in data/ were measured on."""
START = 6.0
"""Seconds that the process of a run takes besides its samples: imports, the environment, evaluations."""


@dataclass(frozen=True)
class Stand:
    """Runs and samples of some variants of some studies, those there and all of them, and seconds of the rest."""

    runs: int
    done: int
    samples: int
    samples_there: int
    seconds: float


def benchmark() -> float:
    """Seconds of a fixed piece of work like an epoch's: a network of the paper's size forth and back, one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        weights = [torch.full((n, m), 1e-3, requires_grad=True) for n, m in ((2, 300), (300, 300), (300, 2))]
        found = []
        for _ in range(5):
            begun = time.thread_time()  # of the processor: others who use it now do not count
            x = torch.full((2000, 2), 0.5)
            for weight in weights:
                x = torch.relu(x @ weight)
            x.sum().backward()  # type: ignore[no-untyped-call]
            found.append(time.thread_time() - begun)
    finally:
        torch.set_num_threads(threads)
    return min(found)


def stand(needs: Mapping[str, set[str]], asked: Asked, jobs: int, speed: float) -> Stand:
    """How things stand with the runs of `needs`. speed: of this machine beside the reference, 2 for twice as fast."""
    runs = done = samples = there = 0
    seconds = 0.0
    for name, variants in needs.items():
        study = find_study(name)
        tasks = study.data.get("tasks", ("",))
        for variant in study.variants:
            if variant not in variants:
                continue
            each = study.samples(variant, asked.scale) // len(tasks)
            for seed in range(asked.scale.seeds(study, asked.seeds)):
                for task in tasks:
                    finished, reached = _reached(study, asked, variant, seed, task)
                    runs, done, samples, there = runs + 1, done + finished, samples + each, there + reached
                    if not finished:
                        seconds += START + max(each - reached, 0) * _cost(study, variant, asked) / 1000
    return Stand(runs, done, samples, there, seconds / speed / jobs)


def _reached(study: Study, asked: Asked, variant: str, seed: int, task: str) -> tuple[bool, int]:
    """Whether a run is finished, and the samples that it has."""
    with suppress(MepolError):
        run = RunDirectory.open(study.place(asked.root, variant, seed, task))
        rows = run.rows()
        return run.is_finished, rows[-1].samples if rows else 0
    return False, 0


def _cost(study: Study, variant: str, asked: Asked) -> float:
    """Milliseconds per sample on the reference: the explorer's or the learner's own, or that of the settings."""
    costs = study.data["cost"]
    own = study.variants[variant]
    if study.is_task:
        return float(costs["trpo" if own["algo"] == "trpo" else "sac"])
    return float(costs.get(own.get("explorer"), costs["fast" if asked.scale.fast else "paper"]))

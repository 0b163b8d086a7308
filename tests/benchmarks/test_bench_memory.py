"""Memory is that of the process that used it."""

from __future__ import annotations

import dataclasses
import resource
from pathlib import Path

import numpy as np
import pytest

from bench import CASES, Peak, bench_memory, peak_memory
from bench.memory import Case, run_case
from mepol.errors import RunError
from mepol.exploration.presets import preset
from mepol.runs.machine import MachineConfig


def test_the_peak_is_at_least_what_is_resident_now() -> None:
    ballast = np.ones(1 << 25)  # 256 MB, touched
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    assert resident > ballast.nbytes
    assert 0.99 * resident < peak_memory() < 2**36  # the kernel's two counters differ by some pages


def test_a_case_runs_one_epoch_and_an_evaluation() -> None:
    config = preset("mountain-car").config
    small = dataclasses.replace(
        config,
        trajectories=3,
        horizon=20,
        machine=MachineConfig(threads=1),
        policy=dataclasses.replace(config.policy, hidden=(8,), zero_mean_steps=1),
        evaluation=dataclasses.replace(config.evaluation, evaluation_trajectories=2),
    )
    assert run_case(Case(small, bound=1e9, evaluated=True)) == 60


def test_the_cases_are_those_that_are_promised() -> None:
    ant, particles = CASES["ant"].config, CASES["particles"].config
    assert (ant.env, ant.trajectories * ant.horizon, CASES["ant"].evaluated) == ("mepol/Ant-v0", 10_000, True)
    assert particles.trajectories * particles.horizon == 120_000
    assert (particles.ascent.k, particles.policy.hidden) == (50, (300, 300))


def test_a_bound_is_broken_when_it_is_reached() -> None:
    assert Peak("ant", 1, 1.4e9, 1.5e9).holds
    assert not Peak("ant", 1, 1.5e9, 1.5e9).holds


def test_a_case_that_fails_says_why() -> None:
    with pytest.raises(RunError, match=r"'nothing' ended with code 1: KeyError: 'nothing'"):
        bench_memory("nothing")

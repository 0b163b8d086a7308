"""Peak resident memory of two jobs that must fit into a small machine, each in a process of its own.

    case       what is done                                                                             bound
    ant        the preset `ant`: one epoch (sampling, neighbours, optimiser) and one evaluation         1.5 GB
    particles  120,000 particles (100 x 1200 steps of GridWorld), k = 50: neighbours and one climb of
               the preset's (300, 300) policy, 30 steps                                                 2 GB

A GB is 10^9 bytes. The libraries themselves (torch, SciPy, MuJoCo) are part of what is counted.
"""

from __future__ import annotations

import dataclasses
import json
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from mepol.errors import RunError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.learner import MepolExplorer
from mepol.exploration.presets import preset
from mepol.exploration.workshop import open_workshop
from mepol.runs.machine import threads_in_force
from mepol.runs.streams import Stream, stream

GB = 1e9


@dataclass(frozen=True)
class Peak:
    """Largest resident memory that one case reached, and what it may reach, in bytes."""

    case: str
    particles: int
    bytes: float
    bound: float

    @property
    def holds(self) -> bool:
        """Whether the case stayed below its bound."""
        return self.bytes < self.bound


@dataclass(frozen=True)
class Case:
    """A configuration to run one epoch of, and the bytes that it may take."""

    config: ExploreConfig
    bound: float
    evaluated: bool = False


CASES = {
    "ant": Case(preset("ant").config, 1.5 * GB, evaluated=True),
    "particles": Case(dataclasses.replace(preset("gridworld").config, trajectories=100), 2.0 * GB),
}


def bench_memory(case: str) -> Peak:
    """Run `case` in a fresh process and hand back its peak; RunError when that process fails."""
    command = [sys.executable, "-m", "bench.memory", case]
    child = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent)
    if child.returncode:
        last = (child.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise RunError(f"the memory case {case!r} ended with code {child.returncode}: {last}")
    return Peak(case, bound=CASES[case].bound, **json.loads(child.stdout))


def run_case(case: Case) -> int:
    """One epoch, and an evaluation where it is asked for, in this process; returns the particles of the epoch."""
    config = case.config
    with threads_in_force(config.machine), open_workshop(config) as workshop:
        explorer = MepolExplorer(workshop)
        particles = explorer.improve(0).samples
        if case.evaluated:
            workshop.assess(explorer.actor(), stream(0, Stream.EVALUATION))
    return particles


def peak_memory() -> float:
    """Largest resident memory of this process so far, in bytes.

    Linux says it of the running program; `ru_maxrss`, asked elsewhere, would also count what the parent held when it
    started this process.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return float(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit


if __name__ == "__main__":
    counted = run_case(CASES[sys.argv[1]])
    sys.stdout.write(json.dumps({"particles": counted, "bytes": peak_memory()}))

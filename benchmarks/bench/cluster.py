"""What a Ray cluster costs: `python benchmarks/bench/cluster.py [--sleepers]`, on a quiet machine.

sweep     8 short GridWorld runs by `--jobs 2` here and by 2 tasks of Ray: the ratio of the two times.
sampler   one Ant batch drawn here, by 1 and by 2 actors.
sleepers  batches whose environments sleep instead of computing, by 1 to 64 actors that share the cores: what is left
          beyond the sleep is the overhead of sending, as it would be on 64 cores.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from mepol import GaussianPolicy
from mepol.cluster.connection import connected
from mepol.cluster.engine import RayEngine
from mepol.cluster.sampler import RaySampler
from mepol.envs.make import Environments
from mepol.exploration.processes import Processes
from mepol.exploration.study import study_of
from mepol.exploration.sweep import Engine, run_members
from mepol.sampling.collect import collect

STEP = 0.002  # seconds that a sleeping environment's step takes
ROWS, STEPS = 64, 50
SMALL = {"horizon": 200, "trajectories": 20, "epochs": 20, "evaluate_every": 0}


class Sleeper(gymnasium.Env[Any, Any]):
    """Stands still, and takes its time."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (29,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (8,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Zeros."""
        return np.zeros(29, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Zeros, after a while."""
        time.sleep(STEP)
        return np.zeros(29, np.float32), 0.0, False, False, {}


def median(work: Callable[[], Any], times: int = 3) -> float:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def swept(engine: Engine) -> float:
    with tempfile.TemporaryDirectory() as out:
        study = study_of({"preset": "gridworld", "seeds": 8, "settings": SMALL})
        return median(lambda: run_members(study.members(Path(out), 1), engine, 2), 1)


def drawn(what: Any, workers: tuple[int, ...], rows: int, steps: int) -> None:
    with Environments(what) as environments:
        env = environments.of(rows)
        policy = GaussianPolicy(env.single_observation_space.shape[0], env.single_action_space.shape[0], (400, 300))
        seed = np.random.SeedSequence(0)
        print(f"  here: {median(lambda: collect(policy, env, steps, seed=0)):.3f} s")
        for count in workers:
            with RaySampler(count) as sampler:
                sampler.collect(policy, environments, rows, steps, seed=seed)  # its environments are made
                taken = median(lambda s=sampler: s.collect(policy, environments, rows, steps, seed=seed))
            ideal = f", asleep {STEP * steps * rows / count:.3f} s of it" if what is Sleeper else ""
            print(f"  {count} workers: {taken:.3f} s{ideal}")


def main() -> None:
    if "--sleepers" in sys.argv:
        import ray

        ray.init(address="local", num_cpus=64, include_dashboard=False, log_to_driver=False)
        print("sleepers")
        drawn(Sleeper, (1, 2, 4, 8, 16, 32, 64), ROWS, STEPS)
        ray.shutdown()
        return
    local = swept(Processes())
    with connected():
        far = swept(RayEngine())
        print(f"sweep: {local:.1f} s by processes, {far:.1f} s by Ray, ratio {far / local:.2f}")
        print("sampler, Ant, 20 x 500")
        drawn("mepol/Ant-v0", (1, 2), 20, 500)


if __name__ == "__main__":
    main()

"""Environment steps a second of fine-tuning's collection, beside the raw sampler's, in one run.

    python benchmarks/finetune_speed.py [--task grid-goal1] [--repetitions 5]

Raw: `mepol.collect` with the same policy, sub-environments, horizon and threads in the task's own domain.
Collection: what `mepol finetune` does before it learns: TRPO's or SAC's rollout through the VecEnv adapter. The two
are timed in turn, so that what else the machine does meets both; the ratio is the number to read.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import torch

import mepol
from mepol.algorithm.policy import GaussianPolicy
from mepol.finetuning.learners import LEARNERS
from mepol.finetuning.presets import default_config
from mepol.finetuning.start import scratch_policy
from mepol.finetuning.tasks import TASKS, make_task
from mepol.sampling.collect import collect
from mepol.sb3.adapter import BatchedVecEnv
from mepol.settings import with_settings


def measure(task: str, algo: str, repetitions: int) -> dict[str, float]:
    """Median steps a second of both ways."""
    config = default_config(task)
    config = with_settings(config, {"algo": algo, "threads": 1})
    raw_env = make_task(TASKS[task], config.lanes, horizon=config.horizon, threads=1).env
    env = BatchedVecEnv(make_task(TASKS[task], config.lanes, horizon=config.horizon, threads=1))
    state_dim = raw_env.single_observation_space.shape[0]
    policy: GaussianPolicy = scratch_policy(config, state_dim, raw_env.single_action_space)
    learner = LEARNERS[algo].make(env, config, policy, state_dim)
    seconds: dict[str, list[float]] = {"raw": [], "collection": []}
    for i in range(repetitions):
        begun = time.perf_counter()
        collect(policy, raw_env, config.horizon, seed=np.random.SeedSequence(i))
        middle = time.perf_counter()
        learner.collect([100 * i + m for m in range(config.lanes)])
        seconds["raw"].append(middle - begun)
        seconds["collection"].append(time.perf_counter() - middle)
    ratios = [a / b for a, b in zip(seconds["raw"], seconds["collection"], strict=True)]
    rates = {name: config.steps / statistics.median(times) for name, times in seconds.items()}
    return {**rates, "ratio": statistics.median(ratios)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", action="append", choices=TASKS)
    parser.add_argument("--algo", action="append", choices=("trpo", "sac"))
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"mepol {mepol.__version__}, 1 thread, median of {arguments.repetitions}")
    for task in arguments.task or ("grid-goal1", "ant-escape", "humanoid-up"):
        for algo in arguments.algo or ("trpo", "sac"):
            found = measure(task, algo, arguments.repetitions)
            print(
                f"{task:12s} {algo:5s} raw {found['raw']:8.0f} steps/s  "
                f"collection {found['collection']:8.0f} steps/s  ratio {found['ratio']:.2f}"
            )


if __name__ == "__main__":
    main()

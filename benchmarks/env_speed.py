"""How close the batched MuJoCo domains come to bare physics, and how far they are from Gymnasium's own batches.

    python benchmarks/env_speed.py [--steps 4000] [--repeats 3]

For Ant and Humanoid, at 20 and at 100 environments, in environment steps a second (each of 5 physics steps):

bare     `mj_step` of the same model on as many threads as there are cores: every thread steps its own share
         from beginning to end, with actions drawn beforehand. No policy, no state leaves MuJoCo, nothing waits.
closed   `collect`'s loop: a (400, 300) policy acts on the states of all environments, the batch takes one step.
async    Gymnasium's AsyncVectorEnv of Ant-v5: with 2 environments (it has one worker each, so 2 workers on our 2
         cores), and with 20. The same random actions, no policy in the loop: that favours it.

Bare and closed take turns, so that whatever else the machine does hits both; the ratio is that of the medians. A
closed loop waits for the slowest thread at every step, so other jobs on the machine hurt it more than bare; the
ratio by processor time leaves the waiting out, though not the caches that other jobs empty. Trust neither under load.
Both see actions of the same distribution, hence the same kind of contacts. Memory is the growth of the resident
set when 100 Humanoids are made and stepped 100 times, in a process of their own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import gymnasium
import mujoco
import numpy as np
import torch
from numpy.typing import NDArray

from mepol.envs.ant import AntVectorEnv
from mepol.envs.humanoid import HumanoidVectorEnv
from mepol.envs.physics import MujocoVectorEnv
from mepol.policy import GaussianPolicy

STD = float(np.exp(-0.5))


class Stopwatch:
    """Elapsed time, and processor time of all threads, since it was made."""

    def __init__(self) -> None:
        self.began = time.perf_counter(), time.process_time()

    def rates(self, steps: int) -> tuple[float, float]:
        """Steps a second of each."""
        elapsed, used = time.perf_counter() - self.began[0], time.process_time() - self.began[1]
        return steps / elapsed, steps / used


def bare(env: MujocoVectorEnv, steps: int) -> tuple[float, float]:
    """Steps a second, and a second of processor time, of mj_step alone."""
    env.reset(seed=0)
    m, box = env.num_envs, env.single_action_space
    actions = np.random.default_rng(0).standard_normal((steps // m, m, *box.shape)) * STD
    actions = np.clip(actions, box.low, box.high)

    def share(first: int) -> None:
        for turn in actions:
            for i in range(first, m, env.threads):
                env.data[i].ctrl[:] = turn[i]
                mujoco.mj_step(env.model, env.data[i], nstep=env.frame_skip)

    with ThreadPoolExecutor(env.threads) as pool:
        watch = Stopwatch()
        list(pool.map(share, range(env.threads)))
        return watch.rates(len(actions) * m)


def closed(env: MujocoVectorEnv, steps: int) -> tuple[float, float]:
    """Steps a second, and a second of processor time, with the policy in the loop."""
    rng = np.random.default_rng(0)
    policy = GaussianPolicy(len(env.feature_names), env.single_action_space.shape[0], (400, 300))
    policy.initialise(rng, log_std=-0.5)
    torch.nn.init.zeros_(policy.layers[-1].weight)  # the same actions as bare sees: zero mean, the same spread
    torch.nn.init.zeros_(policy.layers[-1].bias)
    states, _ = env.reset(seed=0)
    watch = Stopwatch()
    for _ in range(steps // env.num_envs):
        states = env.step(policy.act(states, rng))[0]
    return watch.rates(steps // env.num_envs * env.num_envs)


def asynchronous(workers: int, steps: int) -> tuple[float, float]:
    """Steps a second (twice: its processor time is in other processes) of Gymnasium's AsyncVectorEnv of Ant-v5."""
    env = gymnasium.vector.AsyncVectorEnv([lambda: gymnasium.make("Ant-v5") for _ in range(workers)])
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    actions = np.clip(rng.standard_normal((steps // workers, workers, 8)) * STD, -1, 1).astype(np.float32)
    began = time.perf_counter()
    for action in actions:
        env.step(action)
    rate = len(actions) * workers / (time.perf_counter() - began)
    env.close()
    return rate, rate


def resident() -> float:
    """Megabytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def memory() -> None:
    before = resident()
    env = HumanoidVectorEnv(100)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(100):
        env.step(rng.uniform(-0.4, 0.4, (100, 17)))
    print(f"{resident() - before:.0f}")
    env.close()


def medians(repeats: int, *measures: Callable[[], tuple[float, float]]) -> list[NDArray[np.float64]]:
    """The measures take turns, `repeats` times each."""
    rounds = np.array([[measure() for measure in measures] for _ in range(repeats)])
    return list(np.median(rounds, axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description="steps a second of the batched MuJoCo domains")
    parser.add_argument("--steps", type=int, default=4000, help="environment steps in one measurement")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        memory()
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, mujoco {mujoco.__version__}, {options.steps} steps")
    print("domain     envs   bare/s  closed/s  closed/bare (reach 0.85)  the same by processor time")
    for domain in (AntVectorEnv, HumanoidVectorEnv):
        for num_envs in (20, 100):
            env = domain(num_envs)
            turns = partial(bare, env, options.steps), partial(closed, env, options.steps)
            floor, ours = medians(options.repeats, *turns)
            ratio, processor = ours / floor
            numbers = f"{num_envs:4d} {floor[0]:8.0f} {ours[0]:9.0f}  {ratio:11.2f} {processor:27.2f}"
            print(f"{domain.__name__[:-9]:10s} {numbers}", flush=True)
            env.close()
    env = AntVectorEnv(20)
    (ours, _), (two, _), (twenty, _) = medians(
        options.repeats,
        lambda: closed(env, options.steps),
        lambda: asynchronous(2, options.steps),
        lambda: asynchronous(20, options.steps),
    )
    env.close()
    print(
        f"Ant closed, 20 environments {ours:.0f}/s; AsyncVectorEnv 2 workers {two:.0f}/s: {ours / two:.2f} (reach 2.5)"
    )
    print(f"                                          AsyncVectorEnv 20 workers {twenty:.0f}/s: {ours / twenty:.2f}")
    grown = subprocess.run([sys.executable, __file__, "--memory"], capture_output=True, text=True, check=True).stdout
    print(f"100 Humanoids: {grown.strip()} MB (reach: under 1000)")


if __name__ == "__main__":
    main()

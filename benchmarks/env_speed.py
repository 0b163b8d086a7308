"""How close the batched MuJoCo domains come to bare physics, and how far they are from Gymnasium's own batches.

    python benchmarks/env_speed.py [--steps 4000] [--repeats 7]

For Ant and Humanoid, at 20 and at 100 environments, in environment steps a second (each of 5 physics steps):

closed   `collect` with a (400, 300) policy, from the reset to the finished batch.
bare     `mj_step` of the same model on as many threads as there are cores, through the very simulations that
         `collect` has just sampled: the same starts and actions, and, as is checked, the same last states. Every
         thread steps its own share from beginning to end. No policy, no state leaves MuJoCo, nothing waits.
async    Gymnasium's AsyncVectorEnv of Ant-v5: with 2 environments (it has one worker each, so 2 workers on our 2
         cores), and with 20. The same random actions, no policy in the loop: that favours it.

Closed and bare take turns, so that whatever else the machine does hits both; the ratio is the median over the
turns. The ratio by processor time leaves waiting out, though not the caches that other jobs empty. Trust neither
under load. Memory is the growth of the resident set when 100 Humanoids are made and stepped 100 times, in a process
of their own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import gymnasium
import mujoco
import numpy as np
from numpy.typing import NDArray

from mepol.algorithm.batch import Batch
from mepol.algorithm.policy import GaussianPolicy
from mepol.envs.ant import AntVectorEnv
from mepol.envs.humanoid import HumanoidVectorEnv
from mepol.envs.physics import MujocoVectorEnv
from mepol.sampling.collect import collect

STD = float(np.exp(-0.5))


class Stopwatch:
    """Elapsed time, and processor time of all threads, since it was made."""

    def __init__(self) -> None:
        self.began = time.perf_counter(), time.process_time()

    def rates(self, steps: int) -> tuple[float, float]:
        """Steps a second of each."""
        elapsed, used = time.perf_counter() - self.began[0], time.process_time() - self.began[1]
        return steps / elapsed, steps / used


def closed(env: MujocoVectorEnv, steps: int) -> tuple[tuple[float, float], Batch]:
    """Steps a second, and a second of processor time, of `collect` with the policy in the loop; and its batch."""
    policy = GaussianPolicy(len(env.feature_names), env.single_action_space.shape[0], (400, 300))
    policy.initialise(np.random.default_rng(0), log_std=-0.5)
    watch = Stopwatch()
    batch = collect(policy, env, steps // env.num_envs, seed=np.random.SeedSequence(0))
    return watch.rates(batch.size), batch


def bare(env: MujocoVectorEnv, batch: Batch) -> tuple[float, float]:
    """Steps a second, and a second of processor time, of mj_step alone in the simulations of `batch`."""
    seeds = np.random.SeedSequence(0).spawn(2)[0].generate_state(env.num_envs)  # as `collect` draws its starts
    env.reset(seed=seeds.tolist())
    actions = env.clip(batch.actions)

    def share(first: int) -> None:
        for t in range(actions.shape[1]):
            for i in range(first, env.num_envs, env.threads):
                env.data[i].ctrl[:] = actions[i, t]
                mujoco.mj_step(env.model, env.data[i], nstep=env.frame_skip)

    with ThreadPoolExecutor(env.threads) as pool:
        watch = Stopwatch()
        list(pool.map(share, range(env.threads)))
        rates = watch.rates(batch.size)
    same = all(
        np.array_equal(data.qpos, s[: env.model.nq]) for data, s in zip(env.data, batch.states[:, -1], strict=True)
    )
    assert same, "the floor is not the same physics"
    return rates


def compare(env: MujocoVectorEnv, steps: int, repeats: int) -> NDArray[np.float64]:
    """(repeats, 2, 2) rates of closed and bare, which take turns, by the clock and by processor time."""
    rows = []
    for _ in range(repeats):
        ours, batch = closed(env, steps)
        rows.append((ours, bare(env, batch)))
    return np.array(rows)


def asynchronous(workers: int, steps: int) -> float:
    """Steps a second of Gymnasium's AsyncVectorEnv of Ant-v5."""
    env = gymnasium.vector.AsyncVectorEnv([lambda: gymnasium.make("Ant-v5") for _ in range(workers)])
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    actions = np.clip(rng.standard_normal((steps // workers, workers, 8)) * STD, -1, 1).astype(np.float32)
    began = time.perf_counter()
    for action in actions:
        env.step(action)
    rate = len(actions) * workers / (time.perf_counter() - began)
    env.close()
    return rate


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


def main() -> None:
    parser = argparse.ArgumentParser(description="steps a second of the batched MuJoCo domains")
    parser.add_argument("--steps", type=int, default=4000, help="environment steps in one measurement")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        memory()
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, mujoco {mujoco.__version__}, {options.steps} steps")
    print("domain     envs   bare/s  closed/s  closed/bare (reach 0.85), quartiles  the same by processor time")
    for domain in (AntVectorEnv, HumanoidVectorEnv):
        for num_envs in (20, 100):
            env = domain(num_envs)
            rates = compare(env, options.steps, options.repeats)
            env.close()
            ours, floor = np.median(rates[:, :, 0], axis=0)
            low, ratio, high = np.quantile(rates[:, 0, 0] / rates[:, 1, 0], (0.25, 0.5, 0.75))
            processor = np.median(rates[:, 0, 1] / rates[:, 1, 1])
            numbers = f"{num_envs:4d} {floor:8.0f} {ours:9.0f}  {ratio:11.2f}  {low:.2f} - {high:.2f} {processor:23.2f}"
            print(f"{domain.__name__[:-9]:10s} {numbers}", flush=True)
    env = AntVectorEnv(20)
    rounds = [
        (closed(env, options.steps)[0][0], asynchronous(2, options.steps), asynchronous(20, options.steps))
        for _ in range((options.repeats + 1) // 2)
    ]
    env.close()
    ours, two, twenty = np.median(rounds, axis=0)
    print(
        f"Ant closed, 20 environments {ours:.0f}/s; AsyncVectorEnv 2 workers {two:.0f}/s: {ours / two:.2f} (reach 2.5)"
    )
    print(f"                                          AsyncVectorEnv 20 workers {twenty:.0f}/s: {ours / twenty:.2f}")
    grown = subprocess.run([sys.executable, __file__, "--memory"], capture_output=True, text=True, check=True).stdout
    print(f"100 Humanoids: {grown.strip()} MB (reach: under 1000)")


if __name__ == "__main__":
    main()

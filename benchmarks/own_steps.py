"""Whose neighbours a policy's states have: their own trajectory's next steps, or anybody's.

    python benchmarks/own_steps.py zoo:humanoid zoo:ant [--k 4 30]

Printed for each run and k, over 20 trajectories of the run's horizon: the share of the k nearest neighbours that belong
to the same trajectory, and that are at most k steps away in it. Where it is near 1, the entropy estimate measures how
fast a trajectory moves through the features, and hardly how far trajectories are from each other.
"""

from __future__ import annotations

import argparse

import gymnasium
import numpy as np

import mepol


def shares(run: mepol.Run, k: int) -> tuple[float, float]:
    """Of the k nearest neighbours: share in the same trajectory, and at most k steps away in it."""
    env = gymnasium.make_vec(run.config.env, 20, **run.config.env_kwargs)
    batch = mepol.collect(run.policy, env, run.config.horizon, seed=1)
    env.close()
    near = run.domain.search(batch, k)
    trajectory, step = (grid[batch.visited()] for grid in np.indices(batch.actions.shape[:2]))  # (N,) each
    own = trajectory[near.index] == trajectory[:, None]  # (N, K)
    close = np.abs(step[near.index] - step[:, None]) <= k
    return float(own.mean()), float((own & close).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--k", type=int, nargs="+", default=[4, 30])
    asked = parser.parse_args()
    for name in asked.runs:
        for k in asked.k:
            own, close = shares(mepol.open(name), k)
            print(f"{name}, k = {k}: {own:.3f} in the same trajectory, {close:.3f} within {k} steps of it")


if __name__ == "__main__":
    main()

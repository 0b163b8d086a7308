"""What a run's critic says of places that it has never seen: the reason for `--critic-units` and `--optimism`.

    mepol explore ant --fast --epochs 10 --out RUN
    python benchmarks/beyond.py RUN [RUN ...] [--coordinates 0 1] [--times 2 3 5]

A batch is sampled by the run's last policy, then the same states are moved away: the given coordinates count so many
times as much. Printed: the mean and spread of the critic's values of the batch, and by how much the mean of the moved
states lies above it. Values are in units of the rewards' spread, summed over the discounted future.
"""

from __future__ import annotations

import argparse

import gymnasium
import numpy as np
import torch
from safetensors.torch import load_file

import mepol
from mepol.algorithm.critic import Critic


def critic_of(run: mepol.Run, state_dim: int) -> Critic:
    """As its last checkpoint has it."""
    critic = Critic(state_dim, run.config.critic, np.random.default_rng(0))
    saved = load_file(max((run.path / "checkpoints").glob("*.safetensors")))
    critic.load_state_dict({name.removeprefix("critic."): t for name, t in saved.items() if name.startswith("critic.")})
    return critic


@torch.no_grad()
def beyond(run: mepol.Run, coordinates: list[int], times: list[float]) -> tuple[float, float, list[float]]:
    """Mean and spread of the values of a batch, and the rise of the mean where the coordinates are multiplied."""
    env = gymnasium.make_vec(run.config.env, 8, **run.config.env_kwargs)
    batch = mepol.collect(run.policy, env, run.config.horizon, seed=1)
    env.close()
    states = torch.from_numpy(batch.states[:, 1:][batch.visited()]).float()
    critic = critic_of(run, states.shape[1])
    known, rises = critic(states), []
    for factor in times:
        moved = states.clone()
        moved[:, coordinates] *= factor
        rises.append((critic(moved) - known).mean().item())
    return known.mean().item(), known.std().item(), rises


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--coordinates", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--times", type=float, nargs="+", default=[2.0, 3.0, 5.0])
    asked = parser.parse_args()
    for name in asked.runs:
        mean, spread, rises = beyond(mepol.open(name), asked.coordinates, asked.times)
        told = ", ".join(f"{rise:+.2f} at {factor:g} times" for factor, rise in zip(asked.times, rises, strict=True))
        print(f"{name}: values {mean:.2f}, spread {spread:.2f}; {told}")


if __name__ == "__main__":
    main()

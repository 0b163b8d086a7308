"""Learn a task from an explorer's data alone: collect, relabel, and train Stable-Baselines3's SAC on a fixed buffer.

python examples/offline_goal.py                                             # GridGoal1, the zoo's explorer, and random
python examples/offline_goal.py --task ant-navigate --run zoo:ant-xy        # the same for another task

The data of a policy that explored holds the way to goals that it never knew of: they are relabelled afterwards, and no
step is taken in the environment while SAC learns. Beside it, as much data of the policy that exploration started from.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pyarrow.parquet
from stable_baselines3 import SAC
from stable_baselines3.common.logger import configure

import mepol
from mepol.elsewhere.dataset import write_dataset
from mepol.finetuning.tasks import TASKS

ENTROPY = 0.001  # a bonus that a reward of 1 after a hundred steps still outweighs
COLUMNS = ("task", "data", "seed", "steps", "goals_in_data", "updates", "success", "mean_length")


def collected(run: mepol.Run, task: str, steps: int, seed: int) -> dict[str, np.ndarray]:
    """A dataset of the run's policy, as `mepol collect RUN --goal TASK --format parquet` writes it."""
    folder = Path(tempfile.mkdtemp(prefix="mepol-offline-")) / "data"
    write_dataset(run, folder, steps, format="parquet", goal=task, seed=seed)
    table = pyarrow.parquet.read_table(folder)
    flat = {name: np.array(table[name].to_pylist(), dtype=np.float32) for name in table.column_names}
    return {name: column.reshape(len(column), -1) for name, column in flat.items()}


def filled(model: SAC, data: dict[str, np.ndarray]) -> None:
    """Put every transition of `data` into the model's buffer; actions as SAC stores them, in [-1, 1]."""
    actions = model.policy.scale_action(data["action"])
    for row in range(len(actions)):
        model.replay_buffer.add(
            data["observation"][row],
            data["next_observation"][row],
            actions[row],
            data["reward"][row],
            data["terminated"][row],  # a goal ends the episode; a time limit does not
            [{}],
        )


def measured(model: Any, task: str, episodes: int, seed: int) -> tuple[float, float]:
    """Share of `episodes` in which the mean action reaches the goal, and their mean length in steps."""
    env = gymnasium.make_vec(TASKS[task].id, episodes)
    states, _ = env.reset(seed=seed)
    solved, length, going = np.zeros(episodes, bool), np.zeros(episodes), np.ones(episodes, bool)
    while going.any():
        actions, _ = model.predict(states, deterministic=True)
        states, rewards, terminated, truncated, _ = env.step(actions)
        length += going
        solved |= going & (np.asarray(rewards) > 0)
        going &= ~(terminated | truncated)
    env.close()
    return float(solved.mean()), float(length.mean())


def main(
    task: str = "grid-goal1",
    run: str = "zoo:gridworld",
    steps: int = 100_000,
    updates: int = 10_000,
    seeds: int = 1,
    episodes: int = 50,
    discount: float = 0.99,
    out: Path | None = None,
) -> list[tuple[Any, ...]]:
    """SAC on data of the explorer and of the policy that it started from; returns a row of COLUMNS for each."""
    untrained = Path(tempfile.mkdtemp(prefix="mepol-offline-")) / "random"
    sources = {
        "explorer": mepol.open(run),
        "random": mepol.explore(
            TASKS[task].explorer,
            explorer="random",
            evaluation_trajectories=2,
            mirror=True,  # a mean of zero at once, where the preset would bring it there by regression
            zero_mean_steps=0,
            threads=1,  # networks as small as these gain nothing by more
            out=untrained,
            progress=False,
        ),
    }
    env = gymnasium.make(TASKS[task].id)
    rows: list[tuple[Any, ...]] = []
    for seed in range(seeds):
        for name, source in sources.items():
            data = collected(source, task, steps, seed)
            model = SAC("MlpPolicy", env, gamma=discount, ent_coef=ENTROPY, buffer_size=steps, seed=seed, device="cpu")
            model.set_logger(configure(None, []))
            filled(model, data)
            model.train(gradient_steps=updates, batch_size=256)
            goals = int(data["terminated"].sum())
            rows.append((task, name, seed, steps, goals, updates, *measured(model, task, episodes, seed)))
            print(f"{task}, {name} data, seed {seed}: {goals} goals in {steps} steps; success {rows[-1][-2]:.2f}")
    env.close()
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind in (("task", str), ("run", str), ("steps", int), ("updates", int), ("seeds", int), ("out", Path)):
        parser.add_argument(f"--{name}", type=kind)
    parser.add_argument("--episodes", type=int)
    parser.add_argument("--discount", type=float)
    main(**{name: value for name, value in vars(parser.parse_args()).items() if value is not None})

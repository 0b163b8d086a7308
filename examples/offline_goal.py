"""Learn a task from an explorer's data alone: collect, relabel, and train TorchRL's implicit Q-learning on it.

python examples/offline_goal.py                                             # GridGoal1, the zoo's explorer, and random
python examples/offline_goal.py --task ant-navigate --run zoo:ant --policy-updates 10000    # another task

The data of a policy that explored holds the way to goals that it never knew of: they are relabelled afterwards, and no
step is taken in the environment while the learner learns. Beside it, as much data of the policy that exploration
started from.

The loss is TorchRL's `IQLLoss`, with two choices of ours. The critic reads where a step led to, Q(s, a) = Q(s'): the
worlds are deterministic, and a move that a wall cancels then counts as what it was. And advantages are weighed in
steps, since one is worth no more than 1 - discount of the value.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pyarrow.parquet
import torch
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import Tensor, nn
from torchrl.modules import IndependentNormal, ProbabilisticActor
from torchrl.objectives import IQLLoss, SoftUpdate

import mepol
from mepol.elsewhere.dataset import write_dataset
from mepol.finetuning.tasks import TASKS

DISCOUNT, BATCH, HIDDEN, RATE, TARGET_RATE = 0.98, 256, 128, 1e-3, 0.1


class Settings(NamedTuple):
    """What depends on the task."""

    expectile: float = 0.7
    """Of the values that steps of the data lead to; higher looks at the best steps alone."""
    worth: float = 3.0
    """An action that gains a step on another counts e^(worth x value) times as much."""
    span: int = 10
    """Environment steps in a step of the learner; with ten the values of AntNavigate stay within [0, 1]."""
    share: float = 0.0
    """Of a batch that are steps into the goal for certain, where data has few of them."""
    bands: int = 0
    """Sines of every coordinate that networks see: without them the values of GridWorld leak through its walls."""


SETTINGS = {"grid-goal1": Settings(expectile=0.9, worth=10.0, span=1, share=0.05, bands=4)}
COLUMNS = (
    *("task", "data", "seed", "steps", "episodes_in_data", "goals_in_data", "updates"),
    *("success_sampled", "length_sampled", "success_mean", "length_mean"),
)


def collected(run: mepol.Run, task: str, steps: int, seed: int) -> dict[str, np.ndarray]:
    """A dataset of the run's policy, as `mepol collect RUN --goal TASK --format parquet` writes it."""
    folder = Path(tempfile.mkdtemp(prefix="mepol-offline-")) / "data"
    write_dataset(run, folder, steps, format="parquet", goal=task, seed=seed)
    table = pyarrow.parquet.read_table(folder)
    flat = {name: np.array(table[name].to_pylist(), dtype=np.float32) for name in table.column_names}
    return {name: column.reshape(len(column), -1) for name, column in flat.items()}


class Scale(NamedTuple):
    """How states and actions of a dataset are given to networks."""

    mean: np.ndarray
    deviation: np.ndarray
    low: np.ndarray
    high: np.ndarray
    bands: int

    def inputs(self, states: np.ndarray) -> Tensor:
        """(N, S) states -> (N, S (1 + 2 bands)): standardised, and their sines and cosines, each twice as fast."""
        plain = torch.as_tensor((states - self.mean) / self.deviation, dtype=torch.float32)
        waves = [wave(np.pi / 2 * 2**k * plain) for k in range(self.bands) for wave in (torch.sin, torch.cos)]
        return torch.cat([plain, *waves], dim=-1)

    def unit(self, actions: np.ndarray) -> Tensor:
        """(N, A) actions of the environment -> those in [-1, 1]."""
        return torch.as_tensor((actions - self.low) / (self.high - self.low) * 2 - 1).float().clamp(-1, 1)

    def actions(self, unit: Tensor) -> np.ndarray:
        """The way back; what lies beyond the ends is clipped, as it was when the data was played."""
        return np.asarray(self.low + (unit.clamp(-1, 1).numpy() + 1) / 2 * (self.high - self.low), np.float32)


def spans(data: dict[str, np.ndarray], span: int) -> dict[str, np.ndarray]:
    """Where every action led to after `span` steps, or in the goal before; steps that a time limit cuts short go."""
    rows = np.arange(len(data["step"]))
    last = np.append(np.flatnonzero(data["step"][1:, 0] == 0), rows[-1])  # of every episode
    end = last[np.searchsorted(last, rows)]
    whole = (rows + span - 1 <= end) | (data["terminated"][end, 0] > 0)
    later = np.minimum(rows + span - 1, end)[whole]
    after = {name: data[name][later] for name in ("next_observation", "reward", "terminated")}
    return {"observation": data["observation"][whole], "action": data["action"][whole], **after}


def transitions(data: dict[str, np.ndarray], scale: Scale) -> TensorDict:
    """(N,) every transition of `data` as TorchRL names it; a goal ends the episode, a time limit does not."""
    ends = torch.as_tensor(data["terminated"]) > 0
    after = {
        "observation": scale.inputs(data["next_observation"]),
        "reward": torch.as_tensor(data["reward"]),
        "terminated": ends,
        "done": ends,
    }
    fields = {"observation": scale.inputs(data["observation"]), "action": scale.unit(data["action"]), "next": after}
    return TensorDict(fields, batch_size=[len(ends)])


def network(inputs: int, outputs: int, last: nn.Module) -> nn.Sequential:
    """Two hidden layers."""
    hidden = (nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
    return nn.Sequential(*hidden, nn.Linear(HIDDEN, outputs), last)


def value(inputs: int) -> nn.Sequential:
    """A value that is 0 everywhere at first, so that it spreads from the goal."""
    net = network(inputs, 1, nn.Identity())
    nn.init.zeros_(net[-2].weight)
    nn.init.zeros_(net[-2].bias)
    return net


def learnt(rows: TensorDict, own: Settings, updates: int, policy_updates: int, seed: int) -> ProbabilisticActor:
    """A Gaussian policy from `rows` alone: first the values, then what leads to higher ones."""
    discount = DISCOUNT**own.span
    torch.manual_seed(seed)
    states, actions = rows["observation"].shape[1], rows["action"].shape[1]
    both = TensorDictModule(
        network(states, 2 * actions, NormalParamExtractor()), in_keys=["observation"], out_keys=["loc", "scale"]
    )
    actor = ProbabilisticActor(both, in_keys=["loc", "scale"], distribution_class=IndependentNormal)
    loss = IQLLoss(
        actor,
        TensorDictModule(value(states), in_keys=[("next", "observation")], out_keys=["state_action_value"]),
        TensorDictModule(value(states), in_keys=["observation"], out_keys=["state_value"]),
        num_qvalue_nets=1,
        temperature=own.worth / (1 - discount),
        expectile=own.expectile,
        loss_function="l2",
        deactivate_vmap=True,  # one network gains nothing by it
    )
    loss.make_value_estimator(gamma=discount)
    target = SoftUpdate(loss, tau=TARGET_RATE)
    critics = [*loss.value_network_params.flatten_keys().values(), *loss.qvalue_network_params.flatten_keys().values()]
    of_values = torch.optim.Adam(critics, lr=RATE, fused=True)
    of_policy = torch.optim.Adam(list(loss.actor_network_params.flatten_keys().values()), lr=RATE, fused=True)
    slower = torch.optim.lr_scheduler.LinearLR(of_values, 1.0, 0.1, updates)
    goals = rows["next", "terminated"][:, 0].nonzero()[:, 0]

    def batch() -> TensorDict:
        which = torch.randint(len(rows), (BATCH,))
        if len(goals):
            count = int(own.share * BATCH)
            which[:count] = goals[torch.randint(len(goals), (count,))]
        return rows[which]

    for _ in range(updates if len(goals) else 0):  # without a goal every value stays the 0 that it starts as
        drawn = batch()
        of_values.zero_grad()
        (loss.value_loss(drawn)[0] + loss.qvalue_loss(drawn)[0]).backward()
        of_values.step()
        slower.step()
        target.step()
    for _ in range(policy_updates):
        of_policy.zero_grad()
        loss.actor_loss(batch())[0].backward()
        of_policy.step()
    loss.actor_network_params.to_module(actor)
    return actor


def measured(actor: Any, scale: Scale, task: str, episodes: int, seed: int, mean: bool) -> tuple[float, float]:
    """Share of `episodes` in which drawn (or mean) actions reach the goal, and the mean length of all in steps."""
    env = gymnasium.make_vec(TASKS[task].id, episodes)
    states, _ = env.reset(seed=seed)
    solved, length, going = np.zeros(episodes, bool), np.zeros(episodes), np.ones(episodes, bool)
    while going.any():
        with torch.no_grad():
            policy = actor.get_dist(TensorDict({"observation": scale.inputs(states)}, batch_size=[episodes]))
            actions = scale.actions(policy.mean if mean else policy.sample())
        states, rewards, terminated, truncated, _ = env.step(actions)
        length += going
        solved |= going & (np.asarray(rewards) > 0)
        going &= ~(terminated | truncated)
    env.close()
    return float(solved.mean()), float(length.mean())


def main(
    task: str = "grid-goal1",
    run: str = "zoo:gridworld",
    steps: int = 200_000,
    updates: int = 6000,
    policy_updates: int = 2000,
    seeds: int = 1,
    episodes: int = 50,
    out: Path | None = None,
) -> list[tuple[Any, ...]]:
    """The learner on data of the explorer and of the policy that it started from; a row of COLUMNS for each."""
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
    ends = env.action_space.low, env.action_space.high
    env.close()
    own = SETTINGS.get(task, Settings())
    table: list[tuple[Any, ...]] = [COLUMNS]
    for seed in range(seeds):
        for name, source in sources.items():
            data = collected(source, task, steps, seed)
            seen = data["observation"]
            scale = Scale(seen.mean(0), seen.std(0) + 1e-3, *ends, own.bands)
            rows = transitions(spans(data, own.span), scale)
            with torch.random.fork_rng():
                actor = learnt(rows, own, updates, policy_updates, seed)
                found = [measured(actor, scale, task, episodes, seed, mean) for mean in (False, True)]
            played, goals = int(data["episode"].max()) + 1, int(data["terminated"].sum())
            table.append((task, name, seed, steps, played, goals, updates, *found[0], *found[1]))
            said = f"{goals} goals in {steps} steps; success {found[0][0]:.2f}, with mean actions {found[1][0]:.2f}"
            print(f"{task}, {name} data, seed {seed}: {said}", flush=True)
            if out is not None:
                out.parent.mkdir(parents=True, exist_ok=True)
                with out.open("w", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows(table)
    return table[1:]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind in (("task", str), ("run", str), ("steps", int), ("updates", int), ("seeds", int), ("out", Path)):
        parser.add_argument(f"--{name}", type=kind)
    for name in ("policy_updates", "episodes"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int)
    main(**{name: value for name, value in vars(parser.parse_args()).items() if value is not None})

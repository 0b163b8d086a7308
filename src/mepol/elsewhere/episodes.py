"""Trajectories as episodes, the unit in which data is handed on, and their rewards by a goal.

An exploration has no reward: its episodes carry zeros. A goal gives them the rewards of a task afterwards, without
another step: 1 where the state reached solves it, and there the episode ends, as the task's own would.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mepol.algorithm.batch import Batch
from mepol.finetuning.goals import Goal, judge

LANES = 10  # trajectories side by side: what is played does not depend on how much of it is asked for


@dataclass(frozen=True)
class Episode:
    """One trajectory of T steps.

    observations: (T+1, S) float64. actions: (T, A) float32, within the range that the policy acts in.
    rewards: (T,) float64. terminated: whether it ended in a goal; any other end is a time limit.
    """

    observations: NDArray[np.float64]
    actions: NDArray[np.float32]
    rewards: NDArray[np.float64]
    terminated: bool = False

    def __len__(self) -> int:
        return len(self.rewards)

    def first(self, steps: int) -> Episode:
        """Its first `steps` steps."""
        if steps >= len(self):
            return self
        return Episode(self.observations[: steps + 1], self.actions[:steps], self.rewards[:steps])


def episodes_of(batch: Batch, low: ArrayLike = -np.inf, high: ArrayLike = np.inf) -> list[Episode]:
    """One episode per trajectory, without rewards; actions clipped to (A,) `low` and `high`, as environments do."""
    actions = np.clip(batch.actions, low, high).astype(np.float32)
    return [
        Episode(batch.states[m, : length + 1].copy(), actions[m, :length], np.zeros(length))
        for m, length in enumerate(batch.lengths.tolist())
    ]


def goal_rewards(observations: NDArray[Any], goal: Goal) -> NDArray[np.float64]:
    """(T+1, S) observations of an episode -> (T,) rewards: 1 where the state that a step led to solves the goal.

    goal: (M, S) states -> (M,) bool. For data of any origin: `goal_rewards(minari_episode.observations, goal)`.
    """
    return judge(goal, np.asarray(observations)[1:]).astype(np.float64)


def relabelled(episode: Episode, goal: Goal) -> Episode:
    """The episode as the task of `goal` would have seen it: it ends with reward 1 where the goal is first reached."""
    rewards = goal_rewards(episode.observations, goal)
    reached = np.flatnonzero(rewards)
    if not reached.size:
        return dataclasses.replace(episode, rewards=rewards, terminated=False)
    steps = int(reached[0]) + 1
    return Episode(episode.observations[: steps + 1], episode.actions[:steps], rewards[:steps], terminated=True)


def played(
    sample: Callable[[int], Batch], steps: int, low: ArrayLike, high: ArrayLike, goal: Goal | None = None
) -> Iterator[list[Episode]]:
    """Rounds of episodes that have `steps` steps in all, to the very step; a shorter request gives the same beginning.

    sample: number of a round -> its batch. low, high: (A,) range of the actions. goal: rewards by it.
    """
    left, number = steps, 0
    while left:
        kept = []
        for episode in episodes_of(sample(number), low, high):
            episode = (episode if goal is None else relabelled(episode, goal)).first(left)
            left -= len(episode)
            kept.append(episode)
            if not left:
                break
        number += 1
        yield kept

"""A curriculum of the horizon: short trajectories first, longer ones where short ones teach little more.

The rule, all of it:

    T_h    starts at T_0 and is doubled, up to T
    M_h    = ceil(M T / T_h) trajectories, so that an epoch costs as many samples at every horizon
    g      = (H_e - H_{e-WINDOW}) / WINDOW, the mean gain of the batch entropy over the last WINDOW epochs at T_h
    T_h is doubled after an epoch with g <= SHARE max(g_best, 0), where g_best is the largest g at this horizon so far

The bound is a share of what this horizon has given, so that it has no unit: entropies of two features and of twenty
grow at other rates. It does not ask how many epochs there will be: a run that is made longer later stays the same run.
The paper has no curriculum: T_0 = T. docs/method/curriculum.md says what one gives.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

WINDOW = 3  # epochs whose mean gain is looked at
SHARE = 0.5  # of the largest mean gain at a horizon, below which it is doubled


class Curriculum:
    """The horizon of the next epoch, and what decides on it. From `start` steps to `horizon`, M = `trajectories`.

    >>> from mepol.algorithm.curriculum import Curriculum
    >>> stages = Curriculum(150, 1200, trajectories=20)
    >>> stages.horizon, stages.trajectories
    (150, 160)
    >>> [stages.note(0.0) for _ in range(4)]  # nothing is gained in three epochs
    [False, False, False, True]
    >>> stages.horizon, stages.trajectories
    (300, 80)
    """

    def __init__(self, start: int, horizon: int, trajectories: int) -> None:
        self._last, self._steps = horizon, trajectories * horizon
        self._place = torch.tensor([start, 0])  # T_h, and epochs that it has lasted
        self._entropies = torch.zeros(WINDOW + 1, dtype=torch.float64)  # of the last of these epochs, the newest last
        self._best = torch.zeros((), dtype=torch.float64)  # g_best, 0 before there is any

    @property
    def horizon(self) -> int:
        """T_h, steps of a trajectory in the next epoch."""
        return int(self._place[0])

    @property
    def trajectories(self) -> int:
        """M_h, trajectories of the next epoch."""
        return math.ceil(self._steps / self.horizon)

    def state(self) -> dict[str, Tensor]:
        """All that a note changes, by name; its own tensors."""
        return {
            "curriculum.place": self._place,
            "curriculum.entropies": self._entropies,
            "curriculum.best": self._best,
        }

    def note(self, entropy: float) -> bool:
        """Take in the batch entropy, in nats, of an epoch at this horizon; whether the next one has a longer."""
        if self.horizon >= self._last:
            return False
        self._entropies.copy_(self._entropies.roll(-1))
        self._entropies[-1] = entropy
        self._place[1] += 1
        if int(self._place[1]) <= WINDOW:
            return False
        gain = (self._entropies[-1] - self._entropies[0]) / WINDOW
        self._best.copy_(torch.maximum(self._best, gain))
        if gain > SHARE * self._best:
            return False
        self._place.copy_(torch.tensor([min(2 * self.horizon, self._last), 0]))
        self._entropies.zero_()
        self._best.zero_()
        return True

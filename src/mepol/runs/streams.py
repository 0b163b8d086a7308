"""Randomness is an argument: each draw of a run depends on (seed, stream, turn) and on nothing else."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """Independent random streams; a turn is an epoch of exploration or an iteration of fine-tuning."""

    WEIGHTS = 0
    ZERO_MEAN = 1
    BATCH = 2
    EVALUATION = 3
    FRESH = 4  # evaluations on request, apart from those of the run itself
    FILM = 5
    DENSITY = 6  # rollouts of the mixture of MaxEnt
    ORACLE = 7  # training of its policies
    CRITIC = 8  # initial weights of the rule `advantage`
    SURVEY = 9  # random play in an environment that nobody described; always of seed 0, so that all seeds see alike
    ENCODER = 10  # weights of the frozen network whose embedding of pictures is measured
    DATA = 15  # datasets on request, a turn per round
    RIVAL_WEIGHTS = 20  # initial networks of an explorer that is paid by an intrinsic reward
    RIVAL_UPDATE = 21  # its pools and minibatches
    # Fine-tuning, apart from an exploration with the same seed.
    TASK_WEIGHTS = 1000
    TASK_LEARNER = 1001
    TASK_STARTS = 1002
    TASK_ITERATION = 1003
    TASK_WARM_UP = 1004
    TASK_HEADS = 1005  # what each policy of a population earns before anything is learnt
    TASK_ENTROPY = 1006  # initial weights of the value function of the entropy reward


def stream(seed: int, which: Stream, turn: int = 0) -> np.random.SeedSequence:
    """The seed of one stream at one turn."""
    return np.random.SeedSequence(seed, spawn_key=(int(which), turn))

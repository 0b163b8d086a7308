"""What the entropy reward adds to an iteration of fine-tuning: the regularised learner beside the plain one.

Both play and learn in turn, so that a busy moment of the machine meets both; the plain iteration is the floor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.epoch import Timing, alternate
from mepol.exploration.presets import preset
from mepol.exploration.workshop import domain_of, survey_of
from mepol.finetuning.config import FinetuneConfig
from mepol.finetuning.entropy import EntropyTerm
from mepol.finetuning.learners import LEARNERS, OnPolicy
from mepol.finetuning.presets import default_config
from mepol.finetuning.start import scratch_policy
from mepol.finetuning.tasks import TASKS, make_task
from mepol.runs.machine import threads_in_force
from mepol.runs.streams import Stream, stream
from mepol.sb3.adapter import BatchedVecEnv
from mepol.sb3.randomness import drawing_from
from mepol.settings import with_settings

ENTROPY_CASES = tuple(
    (task, kind) for task in ("grid-goal1", "ant-jump", "humanoid-up") for kind in ("state", "value-conditional")
)
"""Tasks at the paper's settings, and kinds of the reward."""


def bench_entropy(task: str, kind: str, *, repetitions: int = 5) -> Timing:
    """Time an iteration of TRPO with the entropy reward of `kind`, on one thread, from scratch."""
    config = with_settings(default_config(task), {"threads": 1, "entropy_weight": 0.1, "entropy_kind": kind})
    with threads_in_force(config.machine), _iteration(config, True) as ours, _iteration(config, False) as plain:
        return alternate(f"{task} {kind}", "iteration", ours, plain, repetitions)


@contextmanager
def _iteration(config: FinetuneConfig, regularised: bool) -> Iterator[Callable[[], None]]:
    """What plays and learns once, with the entropy reward or without."""
    task = TASKS[config.task]
    base = make_task(task, config.lanes, horizon=config.horizon, threads=1)
    env, like = BatchedVecEnv(base), preset(task.explorer).config
    size = base.single_observation_space.shape[0]
    with drawing_from(stream(0, Stream.TASK_LEARNER)):
        learner = LEARNERS["trpo"].make(env, config, scratch_policy(config, size, env.action_space), size)
    assert isinstance(learner, OnPolicy)
    if regularised:
        learner.regularise(EntropyTerm(config, domain_of(base, like, survey=survey_of(lambda _: base, like)), size))

    def once() -> None:
        with drawing_from(stream(0, Stream.TASK_ITERATION)):
            learner.collect(list(range(config.lanes)))
            learner.learn(0)

    try:
        yield once
    finally:
        env.close()

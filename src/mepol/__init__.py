"""Explore any continuous-control environment without rewards: one policy that covers its states evenly."""

from __future__ import annotations

import os

# How torch's libraries work, which they read when they are loaded or first used: where a program has used torch before,
# these come too late and change nothing.
# Long sums cut alike whatever the number of threads: without it a run on two cores would not repeat one on four.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
# A thread waits for the others a few microseconds at full speed, then sleeps. The default is to go on for milliseconds,
# which makes two runs on one machine ten times slower than one (docs/performance.md).
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

from mepol.algorithm.batch import Batch
from mepol.algorithm.policy import GaussianPolicy
from mepol.envs import register_domains
from mepol.errors import MepolError
from mepol.estimators import knn_entropy, knn_kl, weighted_knn_entropy
from mepol.finetuning.tasks import register_tasks
from mepol.runs.policies import load_policy, save_policy
from mepol.sampling.collect import collect

__version__ = "0.1.0"
__all__ = [
    "Batch",
    "GaussianPolicy",
    "MepolError",
    "collect",
    "knn_entropy",
    "knn_kl",
    "load_policy",
    "save_policy",
    "weighted_knn_entropy",
]

register_domains()
register_tasks()

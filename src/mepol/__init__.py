"""Explore any continuous-control environment without rewards: one policy that covers its states evenly."""

from __future__ import annotations

from mepol.batch import Batch
from mepol.envs import register_domains
from mepol.errors import MepolError
from mepol.estimators import knn_entropy, knn_kl, weighted_knn_entropy
from mepol.finetune.tasks import register_tasks
from mepol.policy import GaussianPolicy, load_policy, save_policy
from mepol.sampling import collect

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

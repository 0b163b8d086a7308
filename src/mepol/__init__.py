"""Exploration without rewards: one policy that covers the reachable states of an environment evenly.

    import mepol

    run = mepol.explore("ant", fast=True, epochs=80, out="runs/ant")    # a preset, a Gymnasium id, a class, a factory
    run.metrics["index"], run.best, run.evaluate(), run.figures()       # what it reached
    task = mepol.finetune("ant-navigate", init=run, iterations=20)      # or a goal: lambda states: states[:, 2] > 1.0

Those are the verbs; `mepol.algorithm` is the loop itself, without any file.
"""

from __future__ import annotations

import os as _os
import signal as _signal
import sys as _sys
from typing import Any as _Any


def _leave_quietly() -> _Any:
    """From here on Ctrl-C ends the command line at once, with 130: nothing has begun, and imports take a second.

    Returns what heard it before. A program that imports the package is not touched.
    """
    alone = bool(_sys.argv) and _sys.argv[0].rpartition(_os.sep)[2] in ("mepol", "-m")
    if not alone or _signal.getsignal(_signal.SIGINT) is not _signal.default_int_handler:
        return None
    return _signal.signal(_signal.SIGINT, lambda *_: _os._exit(130))


_heard_before = _leave_quietly()


def _load_torch() -> None:
    """Load torch with its libraries set as runs need them; they read this when they are loaded or first used.

    Where a program has used torch before, it comes too late and changes nothing. The environment is as before
    afterwards.
    """
    wanted = {
        # Long sums cut alike whatever the number of threads: else a run on two cores would not repeat one on four.
        "MKL_CBWR": "AUTO,STRICT",
        # A thread waits for the others a few microseconds at full speed, then sleeps. The default is to go on for
        # milliseconds, which makes two runs on one machine ten times slower than one (docs/results/performance.md).
        "GOMP_SPINCOUNT": "10000",
    }
    missing = [name for name in wanted if name not in _os.environ]
    _os.environ.update({name: wanted[name] for name in missing})
    try:
        import torch

        torch.ones(2, 2) @ torch.ones(2, 2)
    finally:
        for name in missing:
            del _os.environ[name]


_load_torch()

from mepol import algorithm, cluster
from mepol.algorithm.batch import Batch
from mepol.algorithm.policy import GaussianPolicy
from mepol.api import evaluate, explore, finetune, open, preset, presets, resume
from mepol.envs import register_domains as _register_domains
from mepol.errors import MepolError
from mepol.estimators import knn_entropy, knn_kl, weighted_knn_entropy
from mepol.exploration.explorers import Explorer
from mepol.finetuning.tasks import register_tasks as _register_tasks
from mepol.run import Run
from mepol.runs.callbacks import StopAt, TensorBoard, WeightsAndBiases
from mepol.runs.policies import load_policy, save_policy
from mepol.sampling.collect import collect

__version__ = "0.1.0"
__all__ = [
    "Batch",
    "Explorer",
    "GaussianPolicy",
    "MepolError",
    "Run",
    "StopAt",
    "TensorBoard",
    "WeightsAndBiases",
    "algorithm",
    "cluster",
    "collect",
    "evaluate",
    "explore",
    "finetune",
    "knn_entropy",
    "knn_kl",
    "load_policy",
    "open",
    "preset",
    "presets",
    "resume",
    "save_policy",
    "weighted_knn_entropy",
]

_register_domains()
_register_tasks()
if _heard_before is not None:
    _signal.signal(_signal.SIGINT, _heard_before)

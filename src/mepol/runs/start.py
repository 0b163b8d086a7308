"""What either phase may start from: a policy that a run left."""

from __future__ import annotations

from typing import Any

from mepol.runs.directory import RunDirectory
from mepol.runs.policies import load_policy
from mepol.runs.zoo import run_place

SCRATCH = "none"
"""The setting `init` of a run that starts from nothing."""


def load_start(init: str, which: str = "last") -> Any:
    """What acts in a run directory of either phase, in `zoo:NAME`, or in a policy file; None for `none`."""
    if init == SCRATCH:
        return None
    path = run_place(init)
    return load_policy(RunDirectory.open(path).policy_path(which) if path.is_dir() else path)


def own_start(run: RunDirectory[Any, Any]) -> Any:
    """What the policy of `run` started from, by its own copy, wherever that came from; None if from nothing."""
    return None if run.config.init == SCRATCH else load_policy(run.policy_path("initial"))

"""`mepol export RUN|POLICY --to NAME`: a policy as a file of another program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from mepol.commands.terminal import SomePath, Which, at_least, parse
from mepol.console.screen import stdout
from mepol.elsewhere.export import export_file
from mepol.errors import ConfigError
from mepol.run import Run
from mepol.runs.zoo import run_place


@dataclass(frozen=True)
class ExportArguments:
    """Write a policy for another program. Input scaling comes along everywhere; actions keep the policy's range.

    sb3-ppo, sb3-trpo: a model for PPO.load or TRPO.load with the same weights and spread and an untrained value
    function; correlated noise is dropped. sb3-sac: an untrained SAC with a replay buffer that the policy has filled
    (its tanh cannot equal our Gaussian); a policy that SAC learnt is copied exactly. onnx: mean and std. torchscript:
    forward(obs) is the mean, sample(obs, noise) adds the spread. numpy: mean and act in twenty lines beside an .npz.
    Of discrete actions: logits and the likeliest action; not to sb3-sac.
    """

    policy: tyro.conf.Positional[Path]
    """Run directory, of exploration or of fine-tuning; or a policy file, of which no spaces are known."""
    to: Literal["sb3-ppo", "sb3-trpo", "sb3-sac", "onnx", "torchscript", "numpy"]
    """What reads it."""
    out: SomePath = None
    """File to write, never one that is there; by default in the run's directory, named after the policy."""
    which: Which = "last"
    """Which policy of a run."""
    steps: int = 10_000
    """sb3-sac: environment steps in the replay buffer."""
    goal: str = ""
    """sb3-sac: task that rewards them, or module:function; without it rewards are 0."""
    seed: int = 0
    """sb3-sac: of those steps."""


def command(arguments: list[str]) -> None:
    """Write the files, and name them."""
    parsed = parse(ExportArguments, arguments, "mepol export")
    at_least("steps", parsed.steps, 1)
    at_least("seed", parsed.seed, 0)
    if run_place(parsed.policy).is_dir():
        asked = {name: getattr(parsed, name) for name in ("which", "steps", "goal", "seed")}
        files = Run.open(parsed.policy).export(parsed.to, parsed.out, **asked)
    elif parsed.which != "last":
        raise ConfigError(f"--which {parsed.which} is of runs, and {parsed.policy} is a file")
    else:
        files = export_file(parsed.policy, parsed.to, parsed.out)
    for file in files:
        stdout.print(str(file))

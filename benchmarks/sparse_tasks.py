"""Sparse tasks from explorers that are short, with a reward for the entropy of the visited states and without.

    python benchmarks/sparse_tasks.py [--task grid-goal2] [--seeds 3] [--iterations N] [--out runs/entropy]

TRPO at the paper's settings, but for those in the table below. Every member is an ordinary fine-tuning run, begun or
resumed by the command that is printed; a member that is finished is left alone. At the end of a task `mepol compare`
puts its members side by side. In all about 45 minutes of one core: grid-goal2 11, ant-jump 14, humanoid-up 20.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import mepol.cli
from mepol.runs.directory import RunDirectory


@dataclass(frozen=True)
class Setup:
    """A task, where it is begun from, and how long it is learnt."""

    init: str
    """Run or policy that explored."""
    iterations: int
    explore: tuple[str, ...] = ()
    """`mepol explore` that makes it, where it is not in the repository."""
    flags: tuple[str, ...] = ()
    """What differs from the paper's settings."""
    variants: tuple[str, ...] = ("plain", "state")


VARIANTS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "state": ("--entropy-weight", "0.1"),
    "value-conditional": ("--entropy-weight", "0.1", "--entropy-kind", "value-conditional"),
    "decaying": ("--entropy-weight", "0.1", "--entropy-decay", "0.1"),
    "small": ("--entropy-weight", "0.01"),
}
SETUPS = {
    "grid-goal2": Setup(
        "{out}/explorer-gridworld",
        60,
        explore=("gridworld", "--fast", "--epochs", "4", "--seed", "0"),
        variants=("plain", "state", "value-conditional", "decaying", "small"),
    ),
    "ant-jump": Setup("results/ant-fast-seed-0", 40, flags=("--trpo.steps", "10000"), variants=("plain", "decaying")),
    "humanoid-up": Setup(
        "{out}/explorer-humanoid",
        15,
        explore=("humanoid-xyz", "--fast", "--epochs", "50", "--seed", "0", "--evaluate-every", "0"),
        variants=("plain", "decaying"),
    ),
}


def main(arguments: list[str]) -> int:
    """Run what is asked for; returns the exit code of the first command that failed, or 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", action="append", choices=SETUPS)
    parser.add_argument("--variant", action="append", choices=VARIANTS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--out", type=Path, default=Path("runs/entropy"))
    asked = parser.parse_args(arguments)
    for task in asked.task or SETUPS:
        setup = SETUPS[task]
        init = setup.init.format(out=asked.out)
        if setup.explore and (code := _run(["explore", *setup.explore], Path(init))):
            return code
        paths = []
        for seed in range(asked.seeds):
            for variant in asked.variant or setup.variants:
                paths.append(asked.out / f"{task}-{variant}-seed-{seed}")
                length = str(asked.iterations or setup.iterations)
                argv = ["finetune", task, "--init", init, "--seed", str(seed), "--iterations", length]
                if code := _run([*argv, *setup.flags, *VARIANTS[variant]], paths[-1]):
                    return code
        if code := mepol.cli.main(["compare", *map(str, paths), "--out", str(asked.out / f"{task}-compared")]):
            return code
    return 0


def _run(argv: list[str], out: Path) -> int:
    """Begin, go on with, or leave alone the run in `out`."""
    if (out / "config.json").is_file():
        if RunDirectory.open(out).is_finished:
            return 0
        argv = ["resume", str(out)]
    else:
        argv = [*argv, "--threads", "1", "--out", str(out)]
    print("mepol", *argv, flush=True)
    return mepol.cli.main(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

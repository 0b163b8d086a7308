"""Mutated files of every kind against what reads them, in a process that may not take more than 256 MB beyond itself.

Run as a script: COUNT SEED. Prints JSON: files tried, and how often each kind was accepted or refused (by the name of
the error). Anything but a named error, a load that takes ten seconds, or a file that appears anywhere, ends it with
exit code 1.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import pickle
import random
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crash
import numpy as np
import torch
from mutations import forge, mutate

import mepol.cli
import mepol.commands.explore as explore_command
import mepol.commands.finetune as finetune_command
from mepol.algorithm import GaussianPolicy
from mepol.errors import MepolError
from mepol.exploration.explorers import explorer_kind
from mepol.exploration.study import read_study
from mepol.exploration.workshop import open_workshop
from mepol.finetuning import drive as finetuning
from mepol.finetuning.curves import TABLE, CurveRow, read_curves
from mepol.runs.checkpoint import load_checkpoint
from mepol.runs.directory import RunDirectory
from mepol.runs.domain import load_domain
from mepol.runs.policies import load_policy, save_policy
from mepol.sampling.actors import Mixture, SquashedPolicy, UniformActor
from mepol.settings import flat_settings

MEMORY = 256 * 2**20
STUDY = """\
preset = "mountain-car"
seeds = 8
[settings]
trajectories = 100
hidden = [64, 64]
[[variant]]
name = "k-4"
k = 4
[[variant]]
name = "tuned"
preset = "mountain-car-tuned"
"""


class Changed(BaseException):
    """A file was taken for one that it is not."""


class Bomb:
    """A pickle that leaves a file behind when it is opened."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.target),))


def main() -> None:
    count, rng = int(sys.argv[1]), random.Random(int(sys.argv[2]))
    memory = Path("/dev/shm")
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, too_long)
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name, contextlib.ExitStack() as stack:
        home = Path(name)
        with contextlib.redirect_stdout(sys.stderr):
            loaders = loaders_of(home, stack)
        bomb = pickle.dumps(Bomb(home / "bomb"))
        seeds = {path: path.read_bytes() for path in loaders}
        before = tree(home)
        base = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (base + MEMORY, base + MEMORY))
        seen: collections.Counter[str] = collections.Counter()
        paths = list(loaders)
        for i in range(count):
            path = paths[i % len(paths)]
            forged = path.suffix == ".safetensors" and rng.random() < 0.4
            changed = forge(seeds[path], rng) if forged else mutate(seeds[path], rng, list(seeds.values()), bomb)
            path.write_bytes(changed)
            seen[f"{path.relative_to(home)}: {attempt(loaders[path], forged)}"] += 1
            path.write_bytes(seeds[path])
            if i % 1000 == 0 or i == count - 1:
                assert tree(home) == before, f"files changed at {i}"
    print(json.dumps({"tried": count, **dict(sorted(seen.items()))}))


def too_long(*_: object) -> None:
    raise TimeoutError("it took ten seconds")


def loaders_of(home: Path, stack: contextlib.ExitStack) -> dict[Path, Callable[[], Any]]:
    """Every kind of file that mepol reads, and what reads it."""
    found: dict[Path, Callable[[], Any]] = {}
    explore_command.print_summary = finetune_command.print_summary = lambda run: None  # figures take time
    for kind in ("mepol", "maxent", "trpo", "sac"):
        path = home / kind
        assert mepol.cli.main(crash.argv_of(kind, path)) == 0
        run = RunDirectory.open(path)
        checkpoint = run.checkpoints()[0]
        reader = checkpoint_reader(run, checkpoint, job_of(run, stack))
        found[path / "config.json"] = lambda path=path: settings(path)
        found[path / "metrics.csv"] = run.rows
        found[checkpoint] = reader
        if kind == "sac":
            found |= dict.fromkeys(crash.parts_of(checkpoint).values(), reader)
        if kind == "mepol":
            assert run.phase.details is not None
            found[path / "steps.csv"] = lambda run=run: run.phase.details.read(run.path / "steps.csv")
            found[path / "domain.json"] = lambda run=run: load_domain(run)
            last = run.evaluated_turns()[-1]
            found[run.visits_path(last)] = lambda run=run, last=last: run.load_visits(last)
            found[path / "lock"] = lambda run=run: hold(run)
    return found | policies_of(home) | texts_of(home)


def settings(path: Path) -> None:
    run = RunDirectory.open(path)
    flat_settings(run.config)
    run.phase.length(run.config)
    run.phase.protocol(run.config)


def hold(run: RunDirectory[Any, Any]) -> None:
    with run.held():
        pass


def job_of(run: RunDirectory[Any, Any], stack: contextlib.ExitStack) -> Any:
    """What a checkpoint of the run is put back into."""
    if run.phase.name == "explore":
        workshop = stack.enter_context(open_workshop(run.config))
        return explorer_kind(run.config.explorer).make(workshop)
    _, learner = stack.enter_context(finetuning._workshop(run.config, None, None))
    return finetuning.Finetuning(run, learner, None)


def checkpoint_reader(run: RunDirectory[Any, Any], path: Path, job: Any) -> Callable[[], None]:
    whole = load_checkpoint(run, path, job), job.policy_bytes()

    def read() -> None:
        """What is accepted must be what was written: a digest covers all of it. Who forges that may change it."""
        if (load_checkpoint(run, path, job), job.policy_bytes()) != whole:
            raise Changed

    return read


def policies_of(home: Path) -> dict[Path, Callable[[], Any]]:
    """One file of each of the four formats."""
    gaussian, own = GaussianPolicy(2, 2, (8,)), torch.nn.Linear(3, 2)
    gaussian.initialise(np.random.default_rng(0), log_std=-1.0)
    uniform = UniformActor(np.full(2, -1, np.float32), np.full(2, 1, np.float32))
    kinds = {
        "gaussian": gaussian,
        "mixture": Mixture(uniform, (gaussian, gaussian), np.full(3, 1 / 3)),
        "squashed": SquashedPolicy(2, 2, (8,), 2),
        "given": own,
    }
    found: dict[Path, Callable[[], Any]] = {}
    for name, policy in kinds.items():
        path = home / f"{name}.safetensors"
        save_policy(policy, path)
        into = own if name == "given" else None
        load_policy(path, into)
        found[path] = lambda path=path, into=into: load_policy(path, into)
    return found


def texts_of(home: Path) -> dict[Path, Callable[[], Any]]:
    """A study, and a table of learning curves."""
    study, curves = home / "study.toml", home / "curves.csv"
    study.write_text(STUDY)
    rows = (CurveRow("ant-jump", "trpo", s, i, 40 * i, 0.5, 0.25, None, "", "scratch") for s in (0, 1) for i in (0, 1))
    curves.write_text(TABLE.head + "".join(map(TABLE.line, rows)))
    return {study: lambda: read_study(study).members(home, 1), curves: lambda: read_curves(curves)}


def attempt(load: Callable[[], Any], forged: bool) -> str:
    signal.setitimer(signal.ITIMER_PROF, 10)  # of this process's own time: others may be at work
    try:
        load()
    except MepolError as fault:
        str(fault).encode()  # can be printed
        return type(fault).__name__
    except Changed:
        if not forged:
            raise
        return "accepted"
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # at once: what was made may not leave room for more
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "accepted"


def tree(home: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in home.rglob("*")}


if __name__ == "__main__":
    main()

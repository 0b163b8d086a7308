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
import re
import resource
import signal
import string
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crash
import numpy as np
import safetensors.torch
import torch

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
from mepol.runs.tensors import tensor_bytes
from mepol.sampling.actors import Mixture, SquashedPolicy, UniformActor
from mepol.settings import flat_settings

MEMORY = 256 * 2**20
HUGE = (0, 1, -1, 2**31, 2**32, 2**53, 2**62, 2**63, 2**64, 10**30, 10**400, 1e308, -1e308)
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


# --- mutations ----------------------------------------------------------------------------------------------------


def mutate(data: bytes, rng: random.Random, others: list[bytes], bomb: bytes) -> bytes:
    """One to three changes of random kinds."""
    kinds = [flip, flip, cut, splice, insert, size, header, header, json_edit, json_edit, text_edit, words]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.03:
            data = rng.choice((bomb, bomb + data, data[:8] + bomb, rng.choice(others)))
        else:
            data = rng.choice(kinds)(data, rng)
    return data


def forge(data: bytes, rng: random.Random) -> bytes:
    """A file with a digest that fits, whose tensors or header are not what they should be."""
    tensors = {name: t.clone() for name, t in safetensors.torch.load(data).items()}
    texts = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    del texts["sha256"]
    name = rng.choice(sorted(tensors))
    whole = tensors[name]
    odd = {
        "nan": lambda: torch.full_like(whole, torch.nan) if whole.is_floating_point() else whole,
        "huge": lambda: torch.full_like(whole, rng.choice((1e30, -1e30, 89, 0)) if whole.is_floating_point() else 3),
        "scalar": lambda: torch.tensor(0.0),
        "empty": lambda: whole[:0] if whole.dim() else torch.zeros(0),
        "bfloat16": lambda: whole.to(torch.bfloat16),
        "double": lambda: whole.double(),
        "float8": lambda: whole.float().to(torch.float8_e4m3fn),
        "bool": lambda: whole != 0,
        "long": lambda: torch.cat([whole, whole]) if whole.dim() else whole,
        "flat": lambda: whole.reshape(-1),
    }
    action = rng.random()
    if action < 0.5:
        tensors[name] = odd[rng.choice(sorted(odd))]()
    elif action < 0.6:
        del tensors[name]
    elif action < 0.7:
        tensors[rng.choice(("extra", "0." + name, name + "é", ""))] = tensors[name]
    else:
        numbers = ("", "-1", "0", "1", "7", "99999", "9" * 18, "9" * 5000, "NaN", "null")
        lists = ("[]", "[[0,1]]", "[2,2]", "[65536,65536]", "[[8,20,1],[7,20,2]]", '{"torch":[]}', "\ud7ff\x1b[31m")
        texts[rng.choice(sorted(texts))] = rng.choice((*numbers, *lists))
    return tensor_bytes(tensors, texts)


def flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def splice(data: bytes, rng: random.Random) -> bytes:
    a, b, c = sorted(rng.randrange(len(data) + 1) for _ in range(3))
    return rng.choice((data[:a] + data[b:], data[:b] + data[a:], data[:a] + data[b:c] + data[a:b] + data[c:]))


def insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice((rng.randbytes(rng.randrange(1, 64)), b"\0" * 5000, b"[" * 3000)) + data[at:]


def size(data: bytes, rng: random.Random) -> bytes:
    """A forged length of the header."""
    return rng.choice((0, 1, 7, len(data), 2**20, 10**8, 2**31, 2**63 - 1, 2**64 - 1)).to_bytes(8, "little") + data[8:]


def header(data: bytes, rng: random.Random) -> bytes:
    """A header that is well formed and lies."""
    length = int.from_bytes(data[:8], "little")
    try:
        entries = json.loads(data[8 : 8 + length])
        edit(entries, rng)
        forged = json.dumps(entries).encode()
    except (ValueError, OverflowError, RecursionError):
        return data[::-1]
    return len(forged).to_bytes(8, "little") + forged + data[8 + length :]


def json_edit(data: bytes, rng: random.Random) -> bytes:
    try:
        entries = json.loads(data)
        edit(entries, rng)
        return json.dumps(entries).encode()
    except (ValueError, RecursionError):
        return header(data, rng)


def edit(entries: Any, rng: random.Random) -> None:
    """Change one value, somewhere in the tree, to something extreme; or a key; or drop it."""
    while isinstance(entries, dict | list) and entries:
        key = rng.choice(list(entries)) if isinstance(entries, dict) else rng.randrange(len(entries))
        if isinstance(entries[key], dict | list) and rng.random() < 0.8:
            entries = entries[key]
            continue
        action = rng.random()
        if action < 0.7:
            word = "".join(rng.choices(string.printable, k=rng.randrange(12)))
            extreme = (*HUGE, None, True, [], {}, word, "9" * 5000, [2**40, 2**40], [65536] * 31, "F64", "BOOL", "NaN")
            entries[key] = rng.choice((*extreme, float("nan"), float("inf"), str(rng.choice(HUGE))))
        elif action < 0.85 and isinstance(entries, dict):
            entries[rng.choice(("__metadata__", "sha256", "é\ud800", "extra"))] = entries.pop(key)
        else:
            del entries[key]
        return


def text_edit(data: bytes, rng: random.Random) -> bytes:
    """Change one cell of a table."""
    cells = data.split(b",")
    odd = (b"", b"nan", b"-1", b"1e999", b"9" * 30, b"9" * 5000, b'"', b"\0", b"\n", b"\xff", "१".encode(), b"1_0")
    cells[rng.randrange(len(cells))] = rng.choice(odd)
    return b",".join(cells)


def words(data: bytes, rng: random.Random) -> bytes:
    """Change one number or word of a text."""
    parts = re.split(rb"([A-Za-z0-9_.+-]+)", data)
    numbers = (b"nan", b"-1", b"1e308", b"1e999", b"0", b"1" + b"0" * 400, b"9" * 5000)
    odd = (*numbers, b"\\ud800", b"\xff", b"true", b'""', b"..")
    if len(parts) > 2:
        parts[rng.randrange(1, len(parts), 2)] = rng.choice(odd)
    return b"".join(parts)


if __name__ == "__main__":
    main()

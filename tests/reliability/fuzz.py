"""Mutated files against every loader, in a process that may not take more than 256 MB. Run as a script: COUNT SEED.

Prints JSON: files tried, and how often each loader accepted or refused (by the name of the error). Anything but a
named error, a load that takes ten seconds, or a file that appears anywhere, ends it with exit code 1.
"""

from __future__ import annotations

import collections
import json
import os
import pickle
import random
import resource
import signal
import string
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import mepol
from mepol.algorithm import RULES, AscentConfig, GaussianPolicy, PolicyConfig
from mepol.errors import MepolError
from mepol.exploration.config import EvaluationConfig, ExploreConfig
from mepol.exploration.drive import explore
from mepol.runs.checkpoint import Learner, load_checkpoint
from mepol.runs.directory import Run, read_metrics
from mepol.runs.machine import MachineConfig
from mepol.runs.policies import policy_bytes

MEMORY = 256 * 2**20
HUGE = (0, 1, -1, 2**31, 2**32, 2**53, 2**62, 2**63, 2**64, 10**30, 10**400, 1e308, -1e308)
CONFIG = ExploreConfig(
    env="mepol/GridWorld-v0",
    horizon=12,
    trajectories=3,
    epochs=4,
    machine=MachineConfig(threads=1),
    ascent=AscentConfig(k=4, learning_rate=1e-3, max_steps=2, eps=1e-9, max_entropy_drop=100.0),
    policy=PolicyConfig(hidden=(8,), zero_mean_steps=1),
    evaluation=EvaluationConfig(evaluation_trajectories=3, heatmap_axes="x,y"),
)


class Bomb:
    """A pickle that leaves a file behind when it is opened."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.target),))


def main() -> None:
    count, rng = int(sys.argv[1]), random.Random(int(sys.argv[2]))
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        run = explore(CONFIG, home / "run")
        bomb = pickle.dumps(Bomb(home / "bomb"))
        loaders = loaders_of(run)
        seeds = {path: path.read_bytes() for path in loaders}
        before = tree(home)
        base = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (base + MEMORY, base + MEMORY))
        seen: collections.Counter[str] = collections.Counter()
        for i in range(count):
            path = rng.choice(list(loaders))
            changed = mutate(seeds[path], rng, list(seeds.values()), bomb)
            path.write_bytes(changed)
            seen[f"{path.stem if 'epoch' not in path.stem else path.parent.name}: {attempt(loaders[path])}"] += 1
            path.write_bytes(seeds[path])
            if i % 500 == 0 or i == count - 1:
                assert tree(home) == before, f"files changed at {i}"
    print(json.dumps({"tried": count, **dict(sorted(seen.items()))}))


def loaders_of(run: Run) -> dict[Path, Callable[[], Any]]:
    policy = GaussianPolicy(2, 2, CONFIG.policy.hidden)
    ascent = RULES["importance"].make(policy, CONFIG.ascent, CONFIG.critic, 2, np.random.default_rng(0))
    newest = run.checkpoints()[0]
    whole = load_checkpoint(newest, Learner(policy, ascent)), policy_bytes(policy)

    def checkpoint() -> None:
        """What is accepted must be what was written: a digest covers all of it."""
        assert (load_checkpoint(newest, Learner(policy, ascent)), policy_bytes(policy)) == whole

    last = run.evaluated_epochs()[-1]
    return {
        run.policy_path: lambda: mepol.load_policy(run.policy_path),
        newest: checkpoint,
        run.path / "config.json": lambda: Run.open(run.path),
        run.path / "metrics.csv": lambda: read_metrics(run.path / "metrics.csv"),
        run.visits_path(last): lambda: run.load_visits(last),
    }


def attempt(load: Callable[[], Any]) -> str:
    signal.alarm(10)
    try:
        load()
    except MepolError as fault:
        return type(fault).__name__
    except BaseException:
        traceback.print_exc()
        sys.exit(1)
    finally:
        signal.alarm(0)
    return "accepted"


def tree(home: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in home.rglob("*")}


# --- mutations ----------------------------------------------------------------------------------------------------


def mutate(data: bytes, rng: random.Random, others: list[bytes], bomb: bytes) -> bytes:
    """One to three changes of random kinds."""
    kinds = [flip, flip, cut, splice, insert, size, header, header, json_edit, text_edit]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.03:
            data = rng.choice((bomb, bomb + data, data[:8] + bomb, rng.choice(others)))
        else:
            data = rng.choice(kinds)(data, rng)
    return data


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


if __name__ == "__main__":
    main()

"""What the crash tests share: starting and killing real processes, and comparing what they leave."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
EPOCHS = 12
SMALL = (
    *("--trajectories", "4", "--horizon", "24", "--k", "10", "--hidden", "16", "--max-steps", "2", "--threads", "1"),
    *("--evaluation-trajectories", "4", "--evaluate-every", "4", "--zero-mean-steps", "2", "--checkpoint-epochs", "3"),
    *("--log-std", "-1.0", "--learning-rate", "1e-3", "--eps", "1e-9", "--max-entropy-drop", "20"),
)
MIXTURE = (
    *("--trajectories", "4", "--horizon", "24", "--k", "10", "--hidden", "8", "--threads", "1", "--eps", "1e-9"),
    *("--evaluation-trajectories", "4", "--evaluate-every", "2", "--checkpoint-epochs", "2", "--density-horizon", "20"),
    *("--density-trajectories", "3", "--trpo-iterations", "1", "--trpo-steps", "40"),
)
TASK = (
    *("--horizon", "20", "--hidden", "8", "--threads", "1", "--checkpoint-epochs", "3", "--trpo.steps", "40"),
    *("--ppo.steps", "40", "--sac.steps", "40", "--sac.updates", "2", "--sac.batch", "16", "--sac.warmup", "40"),
    *("--sac.buffer", "80"),
)
"""A replay memory of two iterations, full after the first, and a checkpoint every three: always one that is older than
anything the memory still holds."""
LENGTH = {"mepol": EPOCHS, "maxent": 5, "trpo": 7, "ppo": 7, "sac": 8, "smm": 7, "icm": 7, "pseudocount": 5}
"""Every kind of run that learns, and its epochs, rounds or iterations here."""
KINDS = tuple(LENGTH)


def explore_argv(out: Path, *more: str, env: str = "gridworld", epochs: int = EPOCHS) -> list[str]:
    return ["explore", env, *SMALL, "--epochs", str(epochs), *more, "--out", str(out)]


def argv_of(
    kind: str,
    out: Path,
    *more: str,
    length: int | None = None,
    env: str = "gridworld",
    task: tuple[str, ...] = ("grid-goal1",),
) -> list[str]:
    """The command that makes a tiny run of `kind`, in `env` or, where it learns one, of `task`."""
    turns = str(LENGTH[kind] if length is None else length)
    if kind == "mepol":
        return explore_argv(out, *more, env=env, epochs=int(turns))
    if kind == "maxent":
        made = ["explore", env, "--explorer", "maxent", *MIXTURE, "--mixture-size", turns]
    else:
        made = ["finetune", *task, "--algo", kind, *TASK, "--iterations", turns]
    return [*made, *more, "--out", str(out)]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int | None  # negative: killed by that signal; None: it hung
    text: str  # what it printed
    peak: float  # the most memory it ever took, MB
    busy: float  # seconds of a processor

    @property
    def message(self) -> str:
        """Its last sentence, paths shortened to their last part."""
        words = self.text[self.text.rindex("mepol: ") + len("mepol: ") :].split()
        return " ".join(word.rsplit("/", 1)[-1] if word.startswith("/") else word for word in words)


@dataclass
class Command:
    """A command that is running."""

    nursery: Nursery
    pid: int
    log: Path

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, seconds: float = 1200.0) -> Ended:
        answer = self.nursery.ask({"wait": self.pid, "seconds": seconds})
        text = " ".join(self.log.read_text(errors="replace").split())
        return Ended(answer["code"], text, answer["peak"], answer["busy"])


class Nursery:
    """Starts `mepol` commands in processes of their own, without the seconds that imports take."""

    def __init__(self, logs: Path) -> None:
        self.logs, self.count = logs, 0
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "nursery.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def start(self, argv: list[str], **sabotage: Any) -> Command:
        self.count += 1
        log = self.logs / f"{self.count}.log"
        log.touch(mode=0o666)
        log.chmod(0o666)
        pid = self.ask({"argv": argv, "log": str(log), "sabotage": sabotage})["pid"]
        return Command(self, pid, log)

    def run(self, argv: list[str], **sabotage: Any) -> Ended:
        return self.start(argv, **sabotage).wait()

    def run_all(self, requests: list[tuple[list[str], dict[str, Any]]]) -> list[Ended]:
        """Commands side by side."""
        started = [self.start(argv, **sabotage) for argv, sabotage in requests]
        return [command.wait() for command in started]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


def resume_until_done(nursery: Nursery, path: Path, begin: list[str], **sabotage: Any) -> Ended:
    """Continue a run however it was left; one killed before it had a config starts again."""
    return nursery.run(going_on(path, begin), **sabotage)


def going_on(path: Path, begin: list[str]) -> list[str]:
    """The command that goes on with a run however it was left."""
    return ["resume", str(path)] if (path / "config.json").exists() else begin


def header_of(path: Path) -> dict[str, str]:
    """The texts in the header of a safetensors file."""
    data = path.read_bytes()
    header: dict[str, str] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    return header


def parts_of(checkpoint: Path) -> dict[int, Path]:
    """Numbers and files of the replay parts that a checkpoint rests on."""
    folder = checkpoint.parent.parent / "replay"
    named = json.loads(header_of(checkpoint)["parts"])
    return {number: folder / f"iteration-{number:05d}.safetensors" for number, _, _ in named}


def content(run: Path) -> dict[str, Any]:
    """Everything in a run directory of either phase that must not depend on how often it was stopped."""
    with (run / "metrics.csv").open(newline="") as file:
        rows = [{k: v for k, v in row.items() if not k.endswith("_s")} for row in csv.DictReader(file)]
    names = ("policy", "best", "initial")
    whole = {name: (run / name).read_bytes() for name in ("config.json", "domain.json")}
    whole |= {name: path.read_bytes() for name in names if (path := run / f"{name}.safetensors").exists()}
    whole |= {name: path.read_bytes() for name in ("steps.csv",) if (path := run / name).exists()}
    maps = {path.name: path.read_bytes() for path in (run / "heatmaps").glob("*.csv")}
    last = newest(run)
    parts = {path.name: path.read_bytes() for path in parts_of(last).values()}
    return {"metrics": rows, **whole, "heatmaps": maps, "replay": parts, last.name: last.read_bytes()}


def newest(run: Path) -> Path:
    """The newest checkpoint."""
    return max((run / "checkpoints").glob("*.safetensors"))


def turns(run: Path) -> list[int]:
    """The first column of metrics.csv."""
    lines = (run / "metrics.csv").read_text().splitlines()[1:]
    return [int(line.split(",")[0]) for line in lines]


def differences(run: Path, reference: Path) -> list[str]:
    """Names of what differs from a run that nobody stopped."""
    ours, theirs = content(run), content(reference)
    found = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    return found + [f"leftover {path.name}" for path in leftovers(run)]


def assert_same(run: Path, reference: Path) -> None:
    different = differences(run, reference)
    assert not different, f"{different} differ from the uninterrupted run in {run}"
    assert turns(run) == list(range(len(turns(run))))


def leftovers(run: Path) -> list[Path]:
    return [path for path in run.rglob("*") if path.name.endswith("tmp")]


def turns_at_risk(run: Path) -> int:
    """Rows that a dead run has beyond its newest checkpoint: what a resume has to compute again."""
    try:
        whole = (run / "metrics.csv").read_bytes().count(b"\n") - 1
        last = newest(run)
    except (OSError, ValueError):
        return 0
    return max(0, whole - int(last.stem.rpartition("-")[2]))


def wait_for(condition: Any, seconds: float = 600.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


def copy(run: Path, to: Path) -> Path:
    shutil.copytree(run, to, symlinks=True)
    return to


@dataclass
class Ledger:
    """Counts what was tried, and what it cost; kept in a file as it grows, since torture takes long."""

    path: Path | None = None
    rows: dict[str, list[Any]] = field(default_factory=dict)

    def note(self, fault: str, message: str, *, tried: int = 1, redone: int = 0) -> None:
        """`tried` times `fault`; nothing differed afterwards, and at most `redone` turns were computed again."""
        row = self.rows.setdefault(fault, [0, 0, message or "-"])
        row[0] += tried
        row[1] = max(row[1], redone)
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["fault", "tried", "turns_redone", "message"])
            writer.writerows([fault, *row] for fault, row in self.rows.items())


STOPS = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM, "SIGHUP": signal.SIGHUP, "SIGKILL": signal.SIGKILL}


def seldom(*values: Any) -> Any:
    """Parameters of a test that only torture has the time for."""
    return pytest.param(*values, marks=pytest.mark.torture)

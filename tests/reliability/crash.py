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

from mepol.runs.directory import TIMES

HERE = Path(__file__).parent
EPOCHS = 12
SMALL = (
    *("--trajectories", "4", "--horizon", "24", "--k", "10", "--hidden", "16", "--max-steps", "2", "--threads", "1"),
    *("--evaluation-trajectories", "4", "--evaluate-every", "4", "--zero-mean-steps", "2", "--checkpoint-epochs", "3"),
    *("--log-std", "-1.0", "--learning-rate", "1e-3", "--eps", "1e-9", "--max-entropy-drop", "20"),
)


def explore_argv(out: Path, *more: str, env: str = "gridworld", epochs: int = EPOCHS) -> list[str]:
    return ["explore", env, *SMALL, "--epochs", str(epochs), *more, "--out", str(out)]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int | None  # negative: killed by that signal; None: it hung
    text: str  # what it printed

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

    def wait(self, seconds: float = 240.0) -> Ended:
        code = self.nursery.ask({"wait": self.pid, "seconds": seconds})["code"]
        return Ended(code, " ".join(self.log.read_text().split()))


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

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


def resume_until_done(nursery: Nursery, path: Path, explore: list[str]) -> Ended:
    """Continue a run however it was left; one killed before it had a config starts again."""
    whole = (path / "config.json").exists()
    return nursery.run(["resume", str(path)] if whole else explore)


def content(run: Path) -> dict[str, Any]:
    """Everything in a run directory that must not depend on how often it was stopped."""
    with (run / "metrics.csv").open(newline="") as file:
        rows = [{k: v for k, v in row.items() if k not in TIMES} for row in csv.DictReader(file)]
    names = ("steps.csv", "policy.safetensors", "initial.safetensors", "config.json")
    whole = {name: (run / name).read_bytes() for name in names}
    maps = {path.name: path.read_bytes() for path in (run / "heatmaps").glob("*.csv")}
    newest = max((run / "checkpoints").glob("*.safetensors"))
    return {"metrics": rows, **whole, "heatmaps": maps, newest.name: newest.read_bytes()}


def assert_same(run: Path, reference: Path) -> None:
    ours, theirs = content(run), content(reference)
    different = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    assert not different, f"{different} differ from the uninterrupted run in {run}"
    assert [int(row["epoch"]) for row in ours["metrics"]] == list(range(len(ours["metrics"])))
    assert not leftovers(run)


def leftovers(run: Path) -> list[Path]:
    return list(run.rglob("*.tmp"))


def epochs_at_risk(run: Path) -> int:
    """Rows that a dead run has beyond its newest checkpoint: what a resume has to compute again."""
    try:
        whole = (run / "metrics.csv").read_bytes().count(b"\n") - 1
        newest = max((run / "checkpoints").glob("*.safetensors"))
    except (OSError, ValueError):
        return 0
    return max(0, whole - int(newest.stem.removeprefix("epoch-")))


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


def copy(run: Path, to: Path) -> Path:
    shutil.copytree(run, to, symlinks=True)
    return to


@dataclass
class Ledger:
    """Counts what was tried, and what it cost."""

    rows: dict[str, list[Any]] = field(default_factory=dict)

    def note(self, fault: str, message: str, *, tried: int = 1, redone: int = 0) -> None:
        """`tried` times `fault`; nothing differed afterwards, and at most `redone` epochs were computed again."""
        row = self.rows.setdefault(fault, [0, 0, message or "-"])
        row[0] += tried
        row[1] = max(row[1], redone)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["fault", "tried", "epochs_redone", "message"])
            writer.writerows([fault, *row] for fault, row in self.rows.items())


STOPS = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM, "SIGHUP": signal.SIGHUP, "SIGKILL": signal.SIGKILL}

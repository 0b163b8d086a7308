"""Short runs of every kind through the command line, and what they must give whatever is moved or renamed.

    python tests/golden/golden.py      writes digests.json anew for this processor, and the numbers for all

A digest covers every bit of a run's tensors and tables (not its seconds). It belongs to one kind of processor and one
version of the libraries, because rounding does. The numbers of metrics.csv are stored too, and hold on any processor
to a tolerance: the runs are short enough for rounding not to grow.
"""

from __future__ import annotations

import csv
import hashlib
import json
import platform
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import scipy
import torch

import mepol.cli

FILE = Path(__file__).with_name("digests.json")

_RUN = (
    *("--trajectories", "4", "--horizon", "40", "--k", "4", "--hidden", "16", "16", "--threads", "1", "--seed", "5"),
    *("--evaluation-trajectories", "4", "--evaluate-every", "2", "--zero-mean-steps", "3", "--epochs", "4"),
)
_TASK = (
    *("--iterations", "3", "--horizon", "40", "--hidden", "16", "16", "--threads", "1", "--seed", "5"),
    *("--trpo.steps", "160", "--ppo.steps", "160", "--sac.steps", "160", "--sac.updates", "6", "--sac.batch", "32"),
    *("--sac.warmup", "200", "--sac.buffer", "320"),
)
_MAXENT = (
    *("--mixture-size", "2", "--density-horizon", "30", "--density-trajectories", "3", "--trpo-iterations", "2"),
    *("--trpo-steps", "160"),
)

_PLAIN = (
    "--features",
    "all",
    "--scale-features",
    "off",
    "--coinciding",
    "refuse",
    "--heatmap-axes",
    "0,1",
    "--average",
    "0",
)

_PASSES = ("--learning-rate", "1.5e-4", "--max-steps", "4", "--damping", "1e-8")
_LEVEL = ("--critic-units", "tanh", "--optimism", "0", "--order", "1", "--no-symmetric")

CASES: dict[str, tuple[str, ...]] = {
    "importance": ("explore", "gridworld", *_RUN, "--learning-rate", "1e-3", "--max-steps", "5", "--eps", "1e-9"),
    "sgd": ("explore", "mountain-car", *_RUN, "--optimiser", "sgd", "--learning-rate", "1e-3", "--scale-inputs"),
    "advantage": ("explore", "ant", "--fast", *_RUN, "--horizon", "12", "--features", "x,y,z", *_PASSES, *_LEVEL),
    "any": ("explore", "Pendulum-v1", "--fast", *_RUN, "--no-unit-actions", *_PLAIN),
    "random": ("explore", "gridworld", *_RUN, "--explorer", "random", "--eps", "1e-9"),
    "uniform": ("explore", "gridworld", *_RUN, "--explorer", "uniform", "--eps", "1e-9"),
    "maxent": ("explore", "mountain-car", *_RUN, "--explorer", "maxent", *_MAXENT),
    "trpo": ("finetune", "grid-goal1", *_TASK),
    "trpo-from": ("finetune", "grid-goal1", *_TASK, "--init", "{importance}"),
    "ppo": ("finetune", "grid-goal1", "--algo", "ppo", *_TASK),
    "sac": ("finetune", "grid-goal1", "--algo", "sac", *_TASK),
    "sac-from": ("finetune", "grid-goal1", "--algo", "sac", *_TASK, "--init", "{importance}"),
    "smm": ("finetune", "grid-goal1", "--algo", "smm", *_TASK),
    "icm": ("finetune", "grid-goal1", "--algo", "icm", *_TASK),
    "pseudocount": ("finetune", "grid-goal1", "--algo", "pseudocount", *_TASK, "--sac.warmup", "40"),
    "ant-escape": ("finetune", "ant-escape", *_TASK, "--horizon", "10", "--trpo.steps", "40", "--iterations", "2"),
}


def processor() -> str:
    """What the last digit of a run depends on, besides the code."""
    kinds = torch.backends.cpu.get_cpu_capability(), _vendor(), platform.machine()
    return " ".join((*kinds, f"torch {torch.__version__}", f"numpy {np.__version__}", f"scipy {scipy.__version__}"))


def _vendor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    found = [line.split(":")[1].strip() for line in lines if line.startswith(("vendor_id", "cpu family", "model\t"))]
    return "/".join(found[:3])


def run_case(name: str, folder: Path) -> Path:
    """Run a case below `folder`; one that starts from another runs that first."""
    out = folder / name
    if not out.exists():
        argv = [a if not a.startswith("{") else str(run_case(a[1:-1], folder)) for a in CASES[name]]
        code = mepol.cli.main([*argv, "--out", str(out)])
        assert code == 0, f"{name} ended with {code}"
    return out


def numbers(run: Path) -> dict[str, list[float | None]]:
    """The columns of metrics.csv but the seconds."""
    with (run / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if not name.endswith("_s")]
    return {name: [float(row[name]) if row[name] else None for row in rows] for name in names}


def digests(run: Path, columns: Iterable[str]) -> dict[str, str]:
    """A digest of each thing that a run leaves; of metrics.csv these `columns`."""
    table = numbers(run)
    found = {"metrics": _digest(json.dumps({name: table[name] for name in columns}).encode())}
    if (run / "steps.csv").is_file() and (run / "steps.csv").read_bytes().count(b"\n") > 1:
        found["steps"] = _digest((run / "steps.csv").read_bytes())
    for path in sorted((run / "heatmaps").glob("*.csv")):
        found[f"heatmap {path.stem}"] = _digest(path.read_bytes())
    for name in ("policy", "initial"):
        if (run / f"{name}.safetensors").is_file():
            found[name] = _digest_tensors([run / f"{name}.safetensors"])
    if checkpoints := sorted((run / "checkpoints").glob("*.safetensors")):
        found["checkpoint"] = _digest_tensors(checkpoints[-1:])
    for part in sorted((run / "replay").glob("*.safetensors")):
        found[f"replay {part.stem}"] = _digest_tensors([part])
    return found


def _digest_tensors(paths: list[Path]) -> str:
    content = hashlib.sha256()
    for path in paths:
        tensors = safetensors.numpy.load_file(path)
        for name in sorted(tensors):
            content.update(f"{name} {tensors[name].shape} {tensors[name].dtype}".encode())
            content.update(tensors[name].tobytes())
    return content.hexdigest()[:16]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def main() -> None:
    """Write what the runs give here."""
    known: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {"digests": {}}
    with tempfile.TemporaryDirectory() as folder:
        runs = {name: run_case(name, Path(folder)) for name in CASES}
        known["numbers"] = {name: numbers(run) for name, run in runs.items()}
        known["digests"][processor()] = {name: digests(run, numbers(run)) for name, run in runs.items()}
    FILE.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())

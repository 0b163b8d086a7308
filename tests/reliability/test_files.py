"""Files that are cut, damaged, forged or not files at all."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from crash import HERE, Ledger, assert_same, copy
from safetensors.torch import load

import mepol
from mepol.algorithm import RULES, AscentConfig, CriticConfig, GaussianPolicy
from mepol.errors import CheckpointError, MepolError, MepolWarning, PolicyFileError, RunError
from mepol.exploration.drive import resume
from mepol.runs.checkpoint import Learner, load_checkpoint
from mepol.runs.directory import Run, read_metrics
from mepol.runs.tensors import tensor_bytes


def newest(run: Path) -> Path:
    return Run.open(run).checkpoints()[0]


DAMAGE = {
    "empty": lambda data: b"",
    "cut in its first word": lambda data: data[:5],
    "cut after its first word": lambda data: data[:8],
    "cut in its header": lambda data: data[:200],
    "cut in its tensors": lambda data: data[:-100],
    "one byte short": lambda data: data[:-1],
    "one byte long": lambda data: data + b"\0",
    "a flipped bit in a weight": lambda data: data[:-30] + bytes([data[-30] ^ 1]) + data[-29:],
    "another epoch in its header": lambda data: data.replace(b'"epoch":"12"', b'"epoch":"11"'),
    "zeros": lambda data: bytes(len(data)),
    "a pickle": lambda data: pickle.dumps({"epoch": 12}),
    "a forged length": lambda data: (2**62).to_bytes(8, "little") + data[8:],
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_checkpoint_is_passed_over(kind: str, reference: Path, tmp_path: Path, ledger: Ledger) -> None:
    run = copy(reference, tmp_path / "run")
    path = newest(run)
    damaged = DAMAGE[kind](path.read_bytes())
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    with pytest.warns(MepolWarning, match=r"epoch-00012.*; falling back to the checkpoint before"):
        resume(run)
    assert_same(run, reference)
    assert path.with_suffix(".bad").read_bytes() == damaged
    assert len(Run.open(run).checkpoints()) == 2
    ledger.note(
        "newest checkpoint cut or damaged",
        "RUN/checkpoints/epoch-00012.safetensors is damaged: ...; falling back to the checkpoint before",
        redone=3,
    )


def test_when_no_checkpoint_can_be_read_nothing_is_touched(reference: Path, tmp_path: Path, ledger: Ledger) -> None:
    run = copy(reference, tmp_path / "run")
    for path in Run.open(run).checkpoints():
        path.write_bytes(path.read_bytes()[:-1])
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"}
    with pytest.warns(MepolWarning), pytest.raises(RunError, match="has no checkpoint that can be read; start again"):
        resume(run)
    assert before == {path: path.read_bytes() for path in before}
    ledger.note("both checkpoints damaged", "RUN has no checkpoint that can be read; start again with mepol explore")


def test_damaged_checkpoints_do_not_crowd_out_good_ones(reference: Path, tmp_path: Path) -> None:
    run = copy(reference, tmp_path / "run")
    for epoch in (13, 14, 15):
        (run / "checkpoints" / f"epoch-{epoch:05d}.safetensors").write_bytes(b"not one")
    with pytest.warns(MepolWarning):
        resume(run)
    assert newest(run).stem == "epoch-00012"
    assert_same(run, reference)


@pytest.mark.parametrize(
    "name",
    ["lock", "config.json", "metrics.csv", "steps.csv", "policy.safetensors", "heatmaps", "checkpoints", "figures"],
)
def test_a_run_never_writes_through_a_link(name: str, reference: Path, tmp_path: Path, ledger: Ledger) -> None:
    run, outside = copy(reference, tmp_path / "run"), tmp_path / "outside"
    (run / "lock").unlink(missing_ok=True)
    if (run / name).exists():
        shutil.move(run / name, outside)
    else:
        outside.write_text("precious")
    (run / name).symlink_to(outside)
    before = {p: p.read_bytes() for p in (outside, *outside.rglob("*")) if p.is_file()}
    with pytest.raises(RunError, match=f"{name} is a symbolic link, and a run writes only inside its directory"):
        resume(run)
    assert before == {p: p.read_bytes() for p in (outside, *outside.rglob("*")) if p.is_file()}
    ledger.note(
        "symbolic link inside a run directory",
        "RUN/heatmaps is a symbolic link, and a run writes only inside its directory; ...",
    )


def test_a_run_directory_may_itself_be_a_link(reference: Path, tmp_path: Path) -> None:
    copy(reference, tmp_path / "real")
    (tmp_path / "run").symlink_to(tmp_path / "real")
    resume(tmp_path / "run")
    assert_same(tmp_path / "run", reference)


def test_pipes_and_devices_are_refused_at_once(reference: Path, tmp_path: Path) -> None:
    run = copy(reference, tmp_path / "run")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero"), tmp_path):
        with pytest.raises(PolicyFileError):
            mepol.load_policy(path)
        with pytest.raises(RunError):
            read_metrics(path)
    checkpoint = newest(run)
    for path, opened in ((checkpoint, lambda: _load(checkpoint)), (run / "config.json", lambda: Run.open(run))):
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(MepolError):
            opened()


def _load(path: Path) -> None:
    policy = GaussianPolicy(2, 2, (16,))
    ascent = RULES["importance"].make(policy, AscentConfig(), CriticConfig(), 2, np.random.default_rng(0))
    load_checkpoint(path, Learner(policy, ascent))


def test_a_checkpoint_with_half_of_the_moments_is_refused(reference: Path, tmp_path: Path) -> None:
    data = newest(reference).read_bytes()
    tensors = {name: t for name, t in load(data).items() if name != "optimiser.ascent.0.step"}
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])["__metadata__"]
    del header["sha256"]
    path = tmp_path / "epoch-00012.safetensors"
    path.write_bytes(tensor_bytes(tensors, header))
    with pytest.raises(CheckpointError, match=r"lacks 'optimiser\.ascent\.0\.step'"):
        _load(path)


def fuzz(count: int, seed: int, ledger: Ledger) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "fuzz.py"), str(count), str(seed)], capture_output=True, text=True, timeout=3000
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    assert seen["tried"] == count
    refused = sum(n for name, n in seen.items() if name.endswith("Error"))
    assert refused > 0.5 * count
    ledger.note(
        "mutated file opened", "a named error (PolicyFileError, CheckpointError, ConfigError, RunError)", tried=count
    )


def test_mutated_files_give_named_errors_only(ledger: Ledger) -> None:
    fuzz(400, 0, ledger)


@pytest.mark.torture
def test_many_mutated_files_give_named_errors_only(ledger: Ledger) -> None:
    fuzz(12000, 1, ledger)

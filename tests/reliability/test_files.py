"""Files of a run that are cut, damaged, swapped, forged or not files at all."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from crash import HERE, LENGTH, Ledger, Nursery, argv_of, assert_same, copy, header_of, newest, parts_of
from safetensors.torch import load

import mepol
from mepol.errors import MepolWarning, PolicyFileError, RunError
from mepol.exploration.drive import resume
from mepol.runs.directory import RunDirectory
from mepol.runs.tensors import tensor_bytes

MANY = int(os.environ.get("MEPOL_TORTURE_FILES", "100000"))  # mutated files, in torture
DAMAGE = {
    "empty": lambda data: b"",
    "cut in its first word": lambda data: data[:5],
    "cut after its first word": lambda data: data[:8],
    "cut in its header": lambda data: data[:200],
    "cut in its tensors": lambda data: data[:-100],
    "one byte short": lambda data: data[:-1],
    "one byte long": lambda data: data + b"\0",
    "a flipped bit in a weight": lambda data: data[:-30] + bytes([data[-30] ^ 1]) + data[-29:],
    "another epoch in its header": lambda data: data.replace(b'"turn":"12"', b'"turn":"11"'),
    "another run in its header": lambda data: data.replace(b'"run":"', b'"run":"0'),
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
    assert len(RunDirectory.open(run).checkpoints()) == 2
    ledger.note(
        "newest checkpoint cut or damaged",
        "RUN/checkpoints/epoch-00012.safetensors is damaged: ...; falling back to the checkpoint before",
        redone=3,
    )


@pytest.mark.parametrize("kind", ["mepol", "maxent", "trpo", "sac"])
def test_when_no_checkpoint_can_be_read_nothing_is_touched(
    kind: str, references: Callable[[str], Path], tmp_path: Path, ledger: Ledger
) -> None:
    run = copy(references(kind), tmp_path / "run")
    for path in RunDirectory.open(run).checkpoints():
        path.write_bytes(path.read_bytes()[:-1])
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"}
    with pytest.warns(MepolWarning), pytest.raises(RunError, match="has no checkpoint that can be read; start again"):
        mepol.resume(run, progress=False)
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"}
    ledger.note("both checkpoints damaged", "RUN has no checkpoint that can be read; start again with mepol explore")


def test_damaged_checkpoints_do_not_crowd_out_good_ones(reference: Path, tmp_path: Path) -> None:
    run = copy(reference, tmp_path / "run")
    for epoch in (13, 14, 15):
        (run / "checkpoints" / f"epoch-{epoch:05d}.safetensors").write_bytes(b"not one")
    with pytest.warns(MepolWarning):
        resume(run)
    assert newest(run).stem == "epoch-00012"
    assert_same(run, reference)


def test_a_checkpoint_of_another_run_with_the_same_shapes_is_passed_over(
    reference: Path, nursery: Nursery, tmp_path: Path, ledger: Ledger
) -> None:
    assert nursery.run(argv_of("mepol", tmp_path / "other", "--seed", "1")).code == 0
    run = copy(reference, tmp_path / "run")
    shutil.copy(newest(tmp_path / "other"), newest(run))
    with pytest.warns(MepolWarning, match="is of another run; falling back to the checkpoint before"):
        resume(run)
    assert_same(run, reference)
    ledger.note("checkpoint of another run", "RUN/checkpoints/epoch-00012.safetensors is of another run; falling back")


# --- The memory of SAC and its rivals -------------------------------------------------------------------------------


def spoil_part(how: str, part: Path, other: Path) -> None:
    """One replay part, made into what it should not be."""
    if how == "removed":
        part.unlink()
    elif how == "shortened":
        part.write_bytes(part.read_bytes()[:-40])
    elif how == "with fewer rows":
        data = part.read_bytes()
        tensors = {name: t[:-1].clone() for name, t in load(data).items()}
        part.write_bytes(tensor_bytes(tensors, {"format": header_of(part)["format"]}))
    elif how == "another run's":
        shutil.copy(other, part)
    elif how == "its neighbour's":
        shutil.copy(part.with_name("iteration-00007.safetensors"), part)
    else:
        part.write_bytes(bytes(len(part.read_bytes())))


PARTS = ("removed", "shortened", "with fewer rows", "another run's", "its neighbour's", "zeros")


@pytest.mark.parametrize("how", PARTS)
def test_a_memory_is_never_put_back_with_a_part_that_is_not_the_one(
    how: str, references: Callable[[str], Path], tmp_path: Path, ledger: Ledger
) -> None:
    """The newest checkpoint rests on it and is passed over; the one before has all of its parts, and ends the same."""
    reference, run = references("sac"), copy(references("sac"), tmp_path / "run")
    assert header_of(newest(run))["turn"] == str(LENGTH["sac"])
    part = parts_of(newest(run))[8]
    spoil_part(how, part, parts_of(newest(references("icm")))[7])
    with pytest.warns(MepolWarning, match="falling back to the checkpoint before"):
        mepol.resume(run, progress=False)
    assert_same(run, reference)
    ledger.note("replay part removed, shortened or swapped", "RUN/replay/iteration-00008.safetensors ...; falling back")


def test_without_any_memory_to_rest_on_a_run_says_so_and_stays_as_it_is(
    references: Callable[[str], Path], tmp_path: Path
) -> None:
    for kind in ("sac", "icm"):
        run = copy(references(kind), tmp_path / kind)
        shutil.rmtree(run / "replay")
        before = {path: path.read_bytes() for path in run.rglob("*.*") if path.is_file()}
        with pytest.warns(MepolWarning), pytest.raises(RunError, match="has no checkpoint that can be read"):
            mepol.resume(run, progress=False)
        assert before == {path: path.read_bytes() for path in run.rglob("*.*") if path.is_file()}


def test_parts_under_other_names_change_nothing(references: Callable[[str], Path], tmp_path: Path) -> None:
    reference, run = references("sac"), copy(references("sac"), tmp_path / "run")
    last = parts_of(newest(run))[8]
    for name in ("iteration-00099", "iteration-8", "iteration-00001", "iteration-00008 (copy)"):
        shutil.copy(last, last.with_stem(name))
    mepol.resume(run, progress=False)
    assert_same(run, reference)


@pytest.mark.parametrize("kind", ["maxent", "sac"])
@pytest.mark.parametrize("how", ["missing", "cut by a byte"])
def test_a_policy_file_is_not_what_a_run_is_resumed_from(
    kind: str, how: str, references: Callable[[str], Path], tmp_path: Path, ledger: Ledger
) -> None:
    reference, run = references(kind), copy(references(kind), tmp_path / "run")
    path = run / "policy.safetensors"
    path.unlink() if how == "missing" else path.write_bytes(path.read_bytes()[:-1])
    mepol.resume(run, progress=False)
    assert_same(run, reference)
    ledger.note("policy file missing or cut", "")


# --- Links, pipes, devices ------------------------------------------------------------------------------------------


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
    before = {p: p.read_bytes() for folder in (outside, run) for p in (folder, *folder.rglob("*.*")) if p.is_file()}
    with pytest.raises(RunError, match=f"{name}.* is a symbolic link, and nothing is written outside"):
        resume(run)
    assert before == {p: p.read_bytes() for p in before}
    ledger.note(
        "symbolic link inside a run directory",
        "RUN/heatmaps is a symbolic link, and nothing is written outside RUN; put the real ... in its place",
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
    table = RunDirectory.open(run).phase.metrics
    for path in (pipe, Path("/dev/zero"), tmp_path):
        with pytest.raises(PolicyFileError):
            mepol.load_policy(path)
        with pytest.raises(RunError):
            table.read(path)
    piped = newest(run)
    piped.unlink()
    os.mkfifo(piped)
    with pytest.warns(MepolWarning, match=f"{piped.name} is a directory, pipe or device; falling back"):
        resume(run)
    (run / "config.json").unlink()
    os.mkfifo(run / "config.json")
    with pytest.raises(RunError, match=r"it has no config\.json"):
        resume(run)


def test_a_checkpoint_with_half_of_the_moments_is_refused(reference: Path, tmp_path: Path) -> None:
    run = copy(reference, tmp_path / "run")
    path = newest(run)
    data = path.read_bytes()
    tensors = {name: t for name, t in load(data).items() if name != "optimiser.ascent.0.step"}
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    del header["sha256"]
    path.write_bytes(tensor_bytes(tensors, header))
    with pytest.warns(MepolWarning, match=r"lacks 'optimiser\.ascent\.0\.step'; falling back"):
        resume(run)
    assert_same(run, reference)


# --- Files changed at random ----------------------------------------------------------------------------------------


def fuzz(count: int, seed: int, ledger: Ledger) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "fuzz.py"), str(count), str(seed)], capture_output=True, text=True, timeout=10_000
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
    fuzz(MANY, 1, ledger)

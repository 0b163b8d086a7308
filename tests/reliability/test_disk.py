"""Disks that are full, read-only or gone: one sentence, exit code 1, and the run goes on once that is put right."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crash import (
    Command,
    Ended,
    Ledger,
    Nursery,
    assert_same,
    explore_argv,
    leftovers,
    resume_until_done,
    seldom,
    wait_for,
)

NOBODY = 65534


def one_sentence(ended: Ended, *parts: str) -> None:
    assert ended.code == 1, ended.text
    assert "Traceback" not in ended.text
    message = ended.text[ended.text.index("mepol: ") :]
    assert message.count("mepol: ") == 1
    assert all(part in message for part in parts), message


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A tmpfs to mount, and mount again, with the options given."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = False

    def mount(options: str) -> Path:
        nonlocal mounted
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", ("remount," if mounted else "") + options, "tmpfs", str(disk)],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.strip()}")
        mounted = True
        return disk

    if shutil.which("mount") is None:
        pytest.skip("no mount command")
    yield mount
    if mounted:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def stopped(command: Command) -> bool:
    return ") T" in Path(f"/proc/{command.pid}/stat").read_text()


@pytest.mark.parametrize("pages", [seldom(7), 9, seldom(11)])
def test_a_full_disk(
    pages: int, small_disk: Callable[[str], Path], nursery: Nursery, reference: Path, ledger: Ledger
) -> None:
    run = small_disk(f"size={4 * pages}k") / "run"
    ended = nursery.run(explore_argv(run))
    one_sentence(ended, "cannot write", "No space left on device")
    assert not leftovers(run)
    ledger.note("disk full (tmpfs of 28, 36, 44 kB)", ended.message)
    one_sentence(resume_until_done(nursery, run, explore_argv(run)), "No space left on device")  # and nothing breaks
    small_disk("size=10m")
    assert resume_until_done(nursery, run, explore_argv(run)).code == 0
    assert_same(run, reference)


@pytest.mark.parametrize("share", [seldom(0.3), 0.6, seldom(0.95)])
def test_a_file_that_may_not_grow(
    share: float, nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    run = tmp_path / "run"
    largest = max(path.stat().st_size for path in reference.rglob("*.*"))
    ended = nursery.run(explore_argv(run), file_size=int(share * largest))
    one_sentence(ended, "cannot write", "File too large")
    assert not leftovers(run)
    ledger.note("limit on file size (RLIMIT_FSIZE)", ended.message)
    assert resume_until_done(nursery, run, explore_argv(run)).code == 0
    assert_same(run, reference)


def test_a_read_only_disk(small_disk: Callable[[str], Path], nursery: Nursery, reference: Path, ledger: Ledger) -> None:
    disk = small_disk("size=10m")
    run = disk / "run"
    assert nursery.run(explore_argv(run), at=("row", 12, "half")).code == -signal.SIGKILL
    small_disk("ro,size=10m")
    ended = nursery.run(["resume", str(run)])
    one_sentence(ended, "cannot write", "Read-only file system")
    one_sentence(nursery.run(explore_argv(disk / "other")), "cannot write", "Read-only file system; choose another")
    ledger.note("read-only disk", ended.message, tried=2)
    small_disk("rw,size=10m")
    assert nursery.run(["resume", str(run)]).code == 0
    assert_same(run, reference)


@pytest.mark.skipif(os.getuid() != 0, reason="becoming another user needs root")
def test_a_directory_that_becomes_read_only(nursery: Nursery, reference: Path, ledger: Ledger) -> None:
    home = Path(tempfile.mkdtemp(prefix="mepol-nobody-"))  # pytest's own are closed to other users
    try:
        os.chown(home, NOBODY, NOBODY)
        run = home / "run"
        command = nursery.start(explore_argv(run), user=NOBODY, at=("replace", 11, "before"), send=signal.SIGSTOP)
        wait_for(lambda: stopped(command))
        folders = (run, run / "checkpoints", run / "heatmaps")
        for folder in folders:
            folder.chmod(0o555)
        command.send(signal.SIGCONT)
        ended = command.wait()
        one_sentence(ended, "cannot write", "Permission denied")
        ledger.note("directory made read-only during the run", ended.message)
        for folder in folders:
            folder.chmod(0o755)
        assert nursery.run(["resume", str(run)], user=NOBODY).code == 0
        assert_same(run, reference)
    finally:
        shutil.rmtree(home)


def test_a_directory_that_is_removed_or_moved(
    nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    for fate in ("removed", "moved"):
        run = tmp_path / fate
        command = nursery.start(explore_argv(run), at=("replace", 11, "before"), send=signal.SIGSTOP)
        wait_for(lambda command=command: stopped(command))
        run.rename(tmp_path / "elsewhere")
        if fate == "removed":
            shutil.rmtree(tmp_path / "elsewhere")
        command.send(signal.SIGCONT)
        ended = command.wait()
        one_sentence(ended, "cannot write", "No such file or directory")
        assert not run.exists()
        ledger.note(f"directory {fate} during the run", ended.message)
    assert nursery.run(["resume", str(tmp_path / "elsewhere")]).code == 0
    assert_same(tmp_path / "elsewhere", reference)
    missing = nursery.run(["resume", str(tmp_path / "removed")])
    one_sentence(missing, "is not a run directory: it has no config.json")

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crash import Ledger, Nursery, argv_of


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    """Where runs go: memory, where there is such a disk, since SIGKILL loses nothing that was written to either."""
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2**30
    path = Path(tempfile.mkdtemp(prefix="mepol-", dir=memory if usable else None))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def tmp_path(home: Path) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(dir=home))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def nursery(home: Path) -> Iterator[Nursery]:
    """The process that starts commands; its logs may be written by any user."""
    logs = home / "logs"
    logs.mkdir()
    home.chmod(0o755)
    started = Nursery(logs)
    yield started
    started.close()


@pytest.fixture(scope="session")
def references(nursery: Nursery, home: Path) -> Callable[[str], Path]:
    """A run of each kind that nobody interrupted, made when it is first asked for."""
    folder = home / "reference"
    folder.mkdir()

    def find(kind: str) -> Path:
        if not (folder / kind).exists():
            ended = nursery.run(argv_of(kind, folder / kind), trace=str(folder / f"{kind}.json"))
            assert ended.code == 0, ended.text
        return folder / kind

    return find


@pytest.fixture(scope="session")
def operations(references: Callable[[str], Path]) -> Callable[[str], list[str]]:
    """The file operations of a run that nobody interrupted, in order."""

    def find(kind: str) -> list[str]:
        run = references(kind)
        found: list[str] = json.loads(run.with_name(f"{kind}.json").read_text())
        return found

    return find


@pytest.fixture(scope="session")
def reference(references: Callable[[str], Path]) -> Path:
    """A GridWorld exploration that nobody interrupted."""
    return references("mepol")


@pytest.fixture(scope="session")
def ledger() -> Ledger:
    """What was tried; `make torture` keeps it as results/reliability.csv."""
    target = os.environ.get("MEPOL_LEDGER")
    return Ledger(Path(target) if target else None)

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash import Ledger, Nursery, explore_argv


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """The process that starts commands; its logs may be written by any user."""
    logs = tmp_path_factory.mktemp("logs")
    started = Nursery(logs)
    yield started
    started.close()


@pytest.fixture(scope="session")
def reference(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GridWorld run that nobody interrupted."""
    path = tmp_path_factory.mktemp("reference") / "run"
    ended = nursery.run(explore_argv(path))
    assert ended.code == 0, ended.text
    return path


@pytest.fixture(scope="session")
def ledger() -> Iterator[Ledger]:
    """What was tried; `make torture` keeps it as results/reliability.csv."""
    kept = Ledger()
    yield kept
    if target := os.environ.get("MEPOL_LEDGER"):
        kept.write(Path(target))

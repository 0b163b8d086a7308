"""Memory over many epochs."""

from __future__ import annotations

import csv
import os
import resource
import time
from pathlib import Path

import pytest
from crash import Ledger, Nursery, explore_argv

EPOCHS, SETTLED, TOLERANCE = 550, 50, 0.05


@pytest.mark.torture
def test_resident_memory_is_flat(nursery: Nursery, tmp_path: Path, ledger: Ledger) -> None:
    run = tmp_path / "run"
    argv = explore_argv(run, "--kl-threshold", "0.5", epochs=EPOCHS)
    command = nursery.start(argv)
    curve: dict[int, float] = {}
    while True:
        try:
            pages = int(Path(f"/proc/{command.pid}/statm").read_text().split()[1])
            epoch = (run / "metrics.csv").read_bytes().count(b"\n") - 1
        except FileNotFoundError:
            epoch = pages = 0
        except IndexError:
            break
        if not pages and (run / "metrics.csv").exists():
            break  # it has ended
        if epoch > 0:
            curve[epoch] = pages * resource.getpagesize() / 2**20
        time.sleep(0.02)
    ended = command.wait()
    assert ended.code == 0, ended.text[-2000:]
    settled = [mb for epoch, mb in curve.items() if epoch >= SETTLED]
    assert len(settled) > 100
    spread = max(settled) / min(settled) - 1
    if target := os.environ.get("MEPOL_LEDGER"):
        path = Path(target).with_name("soak-memory.csv")
        with path.open("w", newline="") as file:
            file.write(f"# mepol {' '.join(argv[:-1])} RUN\n")
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([("epoch", "resident_mb"), *((e, f"{mb:.2f}") for e, mb in curve.items())])
    ledger.note(f"{EPOCHS} epochs in one process", f"resident memory within {100 * spread:.1f} % after epoch {SETTLED}")
    assert spread < TOLERANCE

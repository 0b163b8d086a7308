"""The same commands give the same runs, through every move of the code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden import CASES, FILE, digests, numbers, processor, run_case

KNOWN = json.loads(FILE.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden")


@pytest.mark.parametrize("name", CASES)
def test_a_run_gives_what_it_gave_before(folder: Path, name: str) -> None:
    run = run_case(name, folder)
    found, known = numbers(run), KNOWN["numbers"][name]
    for column, values in known.items():
        assert len(found[column]) == len(values)
        for ours, theirs in zip(found[column], values, strict=True):
            assert ours == (None if theirs is None else pytest.approx(theirs, rel=0.02, abs=0.02)), column
    if processor() in KNOWN["digests"]:  # the last digit is this processor's own
        ours = digests(run, known)
        known_digests = KNOWN["digests"][processor()][name]
        # A part of a replay memory is kept while a checkpoint needs it: the newest always, an older one may go.
        parts = sorted(key for key in known_digests if key.startswith("replay"))
        gone = [key for key in parts[:-1] if key not in ours]
        assert {key: ours.get(key) for key in known_digests if key not in gone} == {
            key: value for key, value in known_digests.items() if key not in gone
        }

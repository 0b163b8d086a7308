"""A run that is stopped anywhere and resumed equals one that was never stopped, bit for bit."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest
from crash import (
    EPOCHS,
    STOPS,
    Ledger,
    Nursery,
    assert_same,
    copy,
    epochs_at_risk,
    explore_argv,
    leftovers,
    resume_until_done,
    wait_for,
)

EXIT = {"SIGINT": (130,), "SIGTERM": (143,), "SIGHUP": (129,), "SIGKILL": (-signal.SIGKILL,)}
SAID = {
    "SIGINT": "interrupted; what was finished is on disk, and mepol resume RUN goes on from there",
    "SIGTERM": "terminated; what was finished is on disk, and mepol resume RUN goes on from there",
    "SIGHUP": "terminated; what was finished is on disk, and mepol resume RUN goes on from there",
    "SIGKILL": "",  # there is nobody left to say anything
}


def stop_and_resume(
    nursery: Nursery, reference: Path, run: Path, ledger: Ledger, name: str, moments: list[float]
) -> None:
    """Stop the run at each of `moments` (seconds after it begins or resumes), then let it end."""
    argv, landed = explore_argv(run), 0
    for seconds in moments:
        begun = (run / "config.json").exists()
        command = nursery.start(["resume", str(run)] if begun else argv)
        time.sleep(seconds)
        command.send(STOPS[name])
        ended = command.wait()
        assert ended.code in (*EXIT[name], 0, -STOPS[name]), ended.text  # 0: it was done; -n: not yet listening
        if ended.code in EXIT[name]:
            landed += 1
            said = ended.text.replace(f"resume {run} ", "resume RUN ").replace("resume goes", "resume RUN goes")
            assert SAID[name] in said  # a run that was not made yet has no name
            assert name == "SIGKILL" or not leftovers(run)
            ledger.note(f"{name} at a random moment", SAID[name], redone=epochs_at_risk(run))
    assert landed, "every stop came too early or too late"
    ended = resume_until_done(nursery, run, argv)
    assert ended.code == 0, ended.text
    assert_same(run, reference)


def seconds_of(nursery: Nursery, run: Path) -> float:
    start = time.monotonic()
    assert nursery.run(explore_argv(run)).code == 0
    return time.monotonic() - start


@pytest.mark.parametrize("name", STOPS)
def test_a_run_stopped_at_random_moments_ends_as_if_never_stopped(
    name: str, nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    whole = seconds_of(nursery, tmp_path / "timed")
    rng = random.Random(name)
    stop_and_resume(
        nursery, reference, tmp_path / "run", ledger, name, [rng.uniform(0.1, 0.4) * whole for _ in range(2)]
    )


@pytest.mark.torture
@pytest.mark.parametrize("name", STOPS)
@pytest.mark.parametrize("seed", range(4))
def test_many_stops_at_random_moments(
    name: str, seed: int, nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    rng = random.Random(f"{name} {seed}")
    whole = seconds_of(nursery, tmp_path / "timed")
    moments = [rng.uniform(0, 0.2 if seed == 0 else 0.7) * whole for _ in range(6)]
    stop_and_resume(nursery, reference, tmp_path / "run", ledger, name, moments)


def die_at(
    nursery: Nursery, reference: Path, run: Path, ledger: Ledger, call: str, n: int, name: str = "SIGKILL"
) -> bool:
    """Stop the run in its n-th `call`; False where it made fewer."""
    places = {
        "replace": "between the temporary file and its rename",
        "fsync": "before a file has reached the disk",
        "unlink": "while old checkpoints are removed",
        "row": "in the middle of a row of metrics.csv",
    }
    argv = explore_argv(run)
    ended = nursery.run(argv, at=(call, n), send=STOPS[name])
    if ended.code == 0:
        return False
    assert ended.code in EXIT[name], ended.text
    if name == "SIGKILL" and call == "replace":
        assert leftovers(run), "it did not die where it was meant to"
    if name == "SIGKILL" and call == "row":
        assert not (run / "metrics.csv").read_bytes().endswith(b"\n")
    ledger.note(f"{name} {places[call]}", SAID[name], redone=epochs_at_risk(run))
    ended = resume_until_done(nursery, run, argv)
    assert ended.code == 0, ended.text
    assert_same(run, reference)
    return True


@pytest.mark.parametrize(
    ("call", "n", "name"),
    [
        ("replace", 2, "SIGKILL"),
        ("replace", 5, "SIGKILL"),
        ("replace", 11, "SIGKILL"),
        ("replace", 9, "SIGTERM"),
        ("fsync", 7, "SIGKILL"),
        ("unlink", 2, "SIGKILL"),
        ("row", 6, "SIGKILL"),
        ("row", 5, "SIGINT"),
    ],
)
def test_a_run_that_dies_while_writing_ends_as_if_it_had_not(
    call: str, n: int, name: str, nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    assert die_at(nursery, reference, tmp_path / "run", ledger, call, n, name)


@pytest.mark.torture
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
@pytest.mark.parametrize("call", ["replace", "fsync", "unlink", "row"])
def test_a_run_may_die_in_any_of_its_writes(
    call: str, name: str, nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    stride = {"SIGKILL": {"fsync": 3}, "SIGTERM": {"fsync": 9, "replace": 3, "row": 3}}[name].get(call, 1)
    n = 1
    while die_at(nursery, reference, tmp_path / f"run-{n}", ledger, call, n, name):
        n += stride
    assert n > (3 if call == "unlink" else 12)


def test_resuming_may_die_in_every_rename_too(
    nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    half = tmp_path / "half"
    assert nursery.run(explore_argv(half), at=("row", 9)).code == -signal.SIGKILL
    for n in (1, 2, 3, 4, 5):  # metrics, steps, config, checkpoint, policy
        run = copy(half, tmp_path / f"run-{n}")
        ended = nursery.run(["resume", str(run)], at=("replace", n))
        assert ended.code == -signal.SIGKILL
        assert leftovers(run)
        ledger.note("SIGKILL between the temporary file and its rename, in a resume", "", redone=epochs_at_risk(run))
        assert nursery.run(["resume", str(run)]).code == 0
        assert_same(run, reference)


def test_a_torn_last_line_is_dropped(nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger) -> None:
    half = tmp_path / "half"
    assert nursery.run(explore_argv(half), at=("replace", 11)).code == -signal.SIGKILL
    row = (reference / "metrics.csv").read_text().splitlines()[9]
    for cut in (1, 2, len(row) // 2, len(row)):
        run = copy(half, tmp_path / f"cut-{cut}")
        for name in ("metrics.csv", "steps.csv"):
            with (run / name).open("a") as file:
                file.write(row[:cut])
        assert nursery.run(["resume", str(run)]).code == 0
        assert_same(run, reference)
        ledger.note("a torn last line in metrics.csv and steps.csv", "")


def test_a_longer_run_equals_one_started_with_that_length(
    nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    for short in (0, 5, 8):
        run = tmp_path / f"from-{short}"
        assert nursery.run(explore_argv(run, epochs=short)).code == 0
        assert nursery.run(["resume", str(run), "--epochs", str(EPOCHS)]).code == 0
        assert_same(run, reference)
        ledger.note("resume of a finished run with more epochs", "")


def test_a_shorter_run_is_refused_and_a_finished_one_is_left_alone(
    nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    run = copy(reference, tmp_path / "run")
    ended = nursery.run(["resume", str(run), "--epochs", "5"])
    assert ended.code == 2
    assert f"already stands at epoch {EPOCHS}" in ended.text
    ledger.note("resume with fewer epochs than done", "epochs = 5 is not possible: RUN already stands at epoch 12")
    assert_same(run, reference)
    assert nursery.run(["resume", str(run)], figures=True).code == 0
    assert (run / "figures" / "coverage.png").exists()
    assert_same(run, reference)
    ledger.note("resume of a finished run", "")


def test_a_missing_row_is_an_error_and_not_a_gap(nursery: Nursery, reference: Path, tmp_path: Path) -> None:
    run = copy(reference, tmp_path / "run")
    lines = (run / "metrics.csv").read_text().splitlines(keepends=True)
    for kept in (lines[:4] + lines[5:], [*lines[:4], lines[3], *lines[4:]]):  # one row missing; one row twice
        (run / "metrics.csv").write_text("".join(kept))
        ended = nursery.run(["resume", str(run)])
        assert ended.code == 1
        assert "does not have one row for each epoch below 12" in ended.text
        assert (run / "metrics.csv").read_text() == "".join(kept)


def test_a_run_killed_while_it_works_frees_its_lock(
    nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    run = tmp_path / "run"
    first = nursery.start(explore_argv(run, epochs=EPOCHS), environ={})
    wait_for(lambda: len(list((run / "checkpoints").glob("*.safetensors"))) > 0)
    first.send(signal.SIGSTOP)
    second = nursery.run(["resume", str(run)])
    assert second.code == 1
    assert f"is in use by process {first.pid}; wait for it, or stop it" in second.text
    third = nursery.run(explore_argv(run))
    assert third.code == 1
    assert "already exists and is not empty" in third.text
    ledger.note("two processes on one run", "RUN is in use by process 1234; wait for it, or stop it", tried=2)
    first.send(signal.SIGKILL)
    first.wait()
    assert nursery.run(["resume", str(run)]).code == 0
    assert_same(run, reference)


def test_a_clock_that_goes_backwards_changes_nothing(
    nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    run = tmp_path / "run"
    assert nursery.run(explore_argv(run), at=("row", 6), clock=True).code == -signal.SIGKILL
    assert nursery.run(["resume", str(run)], clock=True).code == 0
    assert_same(run, reference)
    ledger.note("wall clock going back an hour at each reading", "", tried=2)

"""A run that is stopped anywhere and resumed equals one that was never stopped, bit for bit."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from crash import (
    EPOCHS,
    KINDS,
    LENGTH,
    STOPS,
    Ledger,
    Nursery,
    argv_of,
    assert_same,
    copy,
    differences,
    explore_argv,
    going_on,
    leftovers,
    resume_until_done,
    seldom,
    turns,
    turns_at_risk,
    wait_for,
)
from trap import MOMENTS

STRIDE = int(os.environ.get("MEPOL_TORTURE_STRIDE", "1"))  # of the operations in which runs are killed, in torture
EXIT = {"SIGINT": (130,), "SIGTERM": (143,), "SIGHUP": (129,), "SIGKILL": (-signal.SIGKILL,)}
SAID = {
    "SIGINT": "interrupted; what was finished is in RUN, and mepol resume RUN goes on from there",
    "SIGTERM": "terminated; what was finished is in RUN, and mepol resume RUN goes on from there",
    "SIGHUP": "terminated; what was finished is in RUN, and mepol resume RUN goes on from there",
    "SIGKILL": "",  # there is nobody left to say anything
}


def stop_and_resume(
    nursery: Nursery, reference: Path, run: Path, ledger: Ledger, name: str, moments: list[float]
) -> None:
    """Stop the run at each of `moments` (seconds after it begins or resumes), then let it end.

    A machine whose speed has changed meanwhile may need other moments than these, sooner or later ones.
    """
    argv, landed, due = explore_argv(run), 0, list(moments)
    for _ in range(len(moments) + 12):
        if not due:
            break
        seconds = due.pop(0)
        command = nursery.start(going_on(run, argv))
        time.sleep(seconds)
        command.send(STOPS[name])
        ended = command.wait()
        assert ended.code in (*EXIT[name], 0, -STOPS[name]), ended.text  # 0: it was done; -n: not yet listening
        if ended.code in EXIT[name]:
            landed += 1
            said = ended.text.replace(str(run), "RUN")
            early = ("what was finished is kept", "nothing was written to RUN yet")  # of a run that was not made yet
            assert any(words in said for words in (SAID[name], *early)), said
            assert name == "SIGKILL" or not leftovers(run)
            ledger.note(f"{name} at a random moment", SAID[name], redone=turns_at_risk(run))
        elif not landed:
            if ended.code == 0:
                assert_same(run, reference)
                shutil.rmtree(run)
            due = due or [seconds * (0.6 if ended.code == 0 else 1.7)]
    assert landed, "every stop came too early or too late"
    ended = resume_until_done(nursery, run, argv)
    assert ended.code == 0, ended.text
    assert_same(run, reference)


@pytest.fixture(scope="module")
def whole(nursery: Nursery, home: Path) -> float:
    """Seconds that an exploration takes."""
    start = time.monotonic()
    assert nursery.run(explore_argv(home / "timed")).code == 0
    return time.monotonic() - start


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", seldom("SIGINT"), seldom("SIGHUP")])
def test_a_run_stopped_at_random_moments_ends_as_if_never_stopped(
    name: str, whole: float, nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    rng = random.Random(name)
    moments = [rng.uniform(0.1, 0.4) * whole for _ in range(2)]
    stop_and_resume(nursery, reference, tmp_path / "run", ledger, name, moments)


@pytest.mark.torture
@pytest.mark.parametrize("name", STOPS)
@pytest.mark.parametrize("seed", range(4))
def test_many_stops_at_random_moments(
    name: str, seed: int, whole: float, nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    rng = random.Random(f"{name} {seed}")
    moments = [rng.uniform(0, 0.2 if seed == 0 else 0.7) * whole for _ in range(6)]
    stop_and_resume(nursery, reference, tmp_path / "run", ledger, name, moments)


# --- Killed in a file operation -------------------------------------------------------------------------------------

At = tuple[str, int, str]  # operation, its number, the moment
PLACES = {
    "replace": "between the temporary file and its rename",
    "fsync": "before a file has reached the disk",
    "unlink": "while old checkpoints are removed",
    "row": "in the middle of a row of metrics.csv",
}


def die_at(
    nursery: Nursery, reference: Path, run: Path, ledger: Ledger, call: str, n: int, name: str = "SIGKILL"
) -> None:
    """Stop an exploration in its n-th `call`, and compare what the next resume makes of it."""
    argv = explore_argv(run)
    ended = nursery.run(argv, at=(call, n, "half" if call == "row" else "before"), send=STOPS[name])
    assert ended.code in EXIT[name], ended.text
    if name == "SIGKILL" and call == "replace":
        assert leftovers(run), "it did not die where it was meant to"
    if name == "SIGKILL" and call == "row":
        tables = [(run / table).read_bytes() for table in ("metrics.csv", "steps.csv")]
        assert not all(table.endswith(b"\n") for table in tables)
    ledger.note(f"{name} {PLACES[call]}", SAID[name], redone=turns_at_risk(run))
    ended = resume_until_done(nursery, run, argv)
    assert ended.code == 0, ended.text
    assert_same(run, reference)


@pytest.mark.parametrize(
    ("call", "n", "name"),
    [
        ("replace", 2, "SIGKILL"),
        ("replace", 9, "SIGTERM"),
        ("fsync", 20, "SIGKILL"),
        ("unlink", 2, "SIGKILL"),
        ("row", 12, "SIGKILL"),
        ("row", 9, "SIGINT"),
    ],
)
def test_a_run_that_dies_while_writing_ends_as_if_it_had_not(
    call: str, n: int, name: str, nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    die_at(nursery, reference, tmp_path / "run", ledger, call, n, name)


@pytest.mark.torture
@pytest.mark.parametrize("call", ["replace", "fsync", "unlink", "row"])
def test_a_run_may_be_asked_to_stop_in_any_of_its_writes(
    call: str,
    nursery: Nursery,
    reference: Path,
    operations: Callable[[str], list[str]],
    tmp_path: Path,
    ledger: Ledger,
) -> None:
    for n in range(1, operations("mepol").count(call) + 1, {"fsync": 9, "replace": 3, "row": 3}.get(call, 1)):
        die_at(nursery, reference, tmp_path / f"run-{n}", ledger, call, n, "SIGTERM")


def kill_and_compare(
    nursery: Nursery, kind: str, reference: Path, chains: dict[Path, list[At]], ledger: Ledger
) -> list[str]:
    """Each run is killed in the first operation of its chain, resumed, killed in the next, ..., and ended.

    Returns what differs from the run that nobody stopped. The chains go side by side.
    """
    begin = {run: argv_of(kind, run) for run in chains}
    for step in range(max(len(chain) for chain in chains.values())):
        due = [run for run, chain in chains.items() if step < len(chain)]
        asked = [(going_on(run, begin[run]), {"at": chains[run][step]}) for run in due]
        for run, ended in zip(due, nursery.run_all(asked), strict=True):
            if ended.code == 0:  # it had fewer operations
                continue
            assert ended.code == -signal.SIGKILL, ended.text
            where = "begins" if step == 0 else "resumes"
            ledger.note(f"SIGKILL in a file operation while {kind} {where}", "", redone=turns_at_risk(run))
    ends = nursery.run_all([(going_on(run, begin[run]), {}) for run in chains])
    assert [ended.code for ended in ends] == [0] * len(ends), [ended.text for ended in ends if ended.code]
    return [f"{run.name} {chains[run]}: {found}" for run in chains if (found := differences(run, reference))]


def chain_of(operations: list[str], n: int, moment: str) -> list[At]:
    """A kill in the n-th operation of a new run, and in four of the resumes after it, spread over all they do."""
    spread = len(operations) // 2
    return [
        ("any", n, moment),
        ("any", 1 + (7 * n) % 23, MOMENTS[n % 3]),
        ("any", 1 + (5 * n + 3) % 25, "half"),
        ("any", 1 + (11 * n) % spread, "before"),
        ("any", 1 + (13 * n) % 27, "after"),
    ]


Kill = Callable[[str, list[tuple[int, str]], int], None]


@pytest.fixture
def kill(
    nursery: Nursery,
    references: Callable[[str], Path],
    operations: Callable[[str], list[str]],
    tmp_path: Path,
    ledger: Ledger,
) -> Kill:
    """Runs of a kind, each killed at one of the (operation, moment) given and in so many resumes after it, compared."""

    def killed(kind: str, kills: list[tuple[int, str]], resumes: int) -> None:
        for first in range(0, len(kills), 2):
            chains = {
                tmp_path / f"run-{n}-{moment}": chain_of(operations(kind), n, moment)[: 1 + resumes]
                for n, moment in kills[first : first + 2]
            }
            found = kill_and_compare(nursery, kind, references(kind), chains, ledger)
            assert not found, found
            for run in chains:
                shutil.rmtree(run)

    return killed


@pytest.mark.parametrize("kind", [k if k in ("mepol", "maxent", "trpo", "sac", "icm") else seldom(k) for k in KINDS])
def test_every_kind_of_run_is_killed_and_ends_as_if_it_had_not_been(
    kind: str, operations: Callable[[str], list[str]], kill: Kill
) -> None:
    done = operations(kind)
    late = max(n for n, name in enumerate(done, start=1) if name == "row" and n < len(done) * 4 // 5)
    kill(kind, [(late, "half")], 1)


@pytest.mark.torture
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_may_be_killed_in_any_file_operation(
    kind: str, operations: Callable[[str], list[str]], kill: Kill
) -> None:
    """Before each, and in the half of each that writes; after one is before the next, and after the last."""
    done = operations(kind)
    kills = [(n, "before") for n in range(1, len(done) + 1)] + [(len(done), "after")]
    kills += [(n, "half") for n, name in enumerate(done, start=1) if name in ("write", "row", "pwrite")]
    kill(kind, kills[::STRIDE], 4)


def test_a_full_memory_is_put_back_from_the_parts_that_a_late_checkpoint_names(
    nursery: Nursery, tmp_path: Path, ledger: Ledger
) -> None:
    """Killed after six rows with its last checkpoint at five: that one still finds everything it rests on."""
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert nursery.run([*SAC, "--out", str(whole)]).code == 0
    assert nursery.run([*SAC, "--out", str(run)], at=("row", 9, "after")).code == -signal.SIGKILL
    assert turns_at_risk(run) == 4
    ledger.note("SIGKILL in a file operation while sac begins", "", redone=4)
    assert nursery.run(["resume", str(run)]).code == 0
    assert_same(run, whole)


SAC = (
    *("finetune", "grid-goal1", "--algo", "sac", "--iterations", "16", "--horizon", "60", "--sac.steps", "120"),
    *("--sac.updates", "5", "--sac.batch", "32", "--sac.warmup", "240", "--sac.buffer", "480", "--hidden", "16", "16"),
    *("--checkpoint-epochs", "5"),
)


def test_a_process_of_its_own_knows_runs_of_both_phases(references: Callable[[str], Path]) -> None:
    """Not a child of ours, in which everything is imported already."""
    paths = [str(references(kind)) for kind in ("mepol", "sac")]
    code = f"import mepol; print(*(mepol.open(path).finished for path in {paths}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "True"], done.stderr


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["mepol", "ppo"])
def test_a_process_of_its_own_resumes_runs_of_both_phases(
    kind: str, nursery: Nursery, references: Callable[[str], Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert nursery.run(argv_of(kind, run), at=("row", 5, "half")).code == -signal.SIGKILL
    done = subprocess.run([sys.executable, "-m", "mepol", "resume", str(run)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert_same(run, references(kind))


@pytest.mark.parametrize("n", [1, seldom(2), 3, 4, seldom(5)])  # metrics, steps, config, checkpoint, policy
def test_resuming_may_die_in_every_rename_too(
    n: int, nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    run = tmp_path / "run"
    assert nursery.run(explore_argv(run), at=("row", 17, "half")).code == -signal.SIGKILL
    ended = nursery.run(["resume", str(run)], at=("replace", n, "before"))
    assert ended.code == -signal.SIGKILL
    assert leftovers(run)
    ledger.note("SIGKILL between the temporary file and its rename, in a resume", "", redone=turns_at_risk(run))
    assert nursery.run(["resume", str(run)]).code == 0
    assert_same(run, reference)


@pytest.mark.parametrize("kind", ["mepol", seldom("trpo"), "sac"])
def test_a_run_that_says_it_is_finished_has_everything_in_place(
    kind: str,
    nursery: Nursery,
    references: Callable[[str], Path],
    operations: Callable[[str], list[str]],
    tmp_path: Path,
) -> None:
    """The row that ends a run is its last word: who finds it finds the last policy and the best one too."""
    run, rows = tmp_path / "run", operations(kind).count("row")
    assert nursery.run(argv_of(kind, run), at=("row", rows, "after")).code == -signal.SIGKILL
    assert turns(run)[-1] == LENGTH[kind]
    assert_same(run, references(kind))


@pytest.mark.parametrize("share", [0.0, seldom(0.01), seldom(0.5), 1.0])
def test_a_torn_last_line_is_dropped(
    share: float, nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    run = tmp_path / "run"
    assert nursery.run(explore_argv(run), at=("replace", 11, "before")).code == -signal.SIGKILL
    row = (reference / "metrics.csv").read_text().splitlines()[9]
    for name in ("metrics.csv", "steps.csv"):
        with (run / name).open("a") as file:
            file.write(row[: max(1, round(share * len(row)))])
    assert nursery.run(["resume", str(run)]).code == 0
    assert_same(run, reference)
    ledger.note("a torn last line in metrics.csv and steps.csv", "")


@pytest.mark.parametrize("short", [0, seldom(5), 7, seldom(8)])
def test_a_longer_run_equals_one_started_with_that_length(
    short: int, nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    run = tmp_path / "run"
    assert nursery.run(explore_argv(run, epochs=short)).code == 0
    assert nursery.run(["resume", str(run), "--epochs", str(EPOCHS)]).code == 0
    # It keeps what was measured at its old end, where the other measured nothing.
    assert set(differences(run, reference)) <= {"metrics", "heatmaps"}
    assert (differences(run, reference) == []) == (short % 4 == 0)
    ours, theirs = ((path / "metrics.csv").read_text().splitlines() for path in (run, reference))
    assert [turn(a) == turn(b) for a, b in zip(ours, theirs, strict=True)].count(False) <= 1
    ledger.note("resume of a finished run with more epochs", "")


def turn(line: str) -> list[str]:
    """A row of metrics.csv without its seconds."""
    cells = line.split(",")
    return [*cells[:7], *cells[10:]]


def test_a_shorter_run_is_refused_and_a_finished_one_is_left_alone(
    nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    run = copy(reference, tmp_path / "run")
    ended = nursery.run(["resume", str(run), "--epochs", "5"])
    assert ended.code == 2
    assert f"already stands at epoch {EPOCHS}" in ended.text
    ledger.note("resume with fewer epochs than done", "epochs = 5 is not possible: RUN already stands at epoch 12")
    assert_same(run, reference)
    assert nursery.run(["resume", str(run)]).code == 0
    assert_same(run, reference)
    ledger.note("resume of a finished run", "")


@pytest.mark.torture
def test_a_finished_run_that_is_resumed_draws_its_figures(
    nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    run = copy(reference, tmp_path / "run")
    assert not list((run / "figures").iterdir())
    assert nursery.run(["resume", str(run)], figures=True).code == 0
    assert (run / "figures" / "coverage.png").read_bytes().startswith(b"\x89PNG")
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
    assert nursery.run(explore_argv(run), at=("row", 12, "half"), clock=True).code == -signal.SIGKILL
    assert nursery.run(["resume", str(run)], clock=True).code == 0
    assert_same(run, reference)
    ledger.note("wall clock going back an hour at each reading", "", tried=2)

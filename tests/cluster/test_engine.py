"""Sweeps on a cluster: the same results as on one machine, whatever becomes of nodes and drivers."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mepol.cluster.engine import RayEngine
from mepol.exploration.drive import explore
from mepol.exploration.study import Member, study_of
from mepol.exploration.sweep import Outcome, log_path, run_members

SMALL = {"horizon": 40, "trajectories": 3, "hidden": [8], "zero_mean_steps": 2, "evaluation_trajectories": 4}
SETTINGS = {**SMALL, "k": 4, "max_steps": 1, "eps": 1e-12, "checkpoint_epochs": 1, "evaluate_every": 0}


def members_of(out: Path, epochs: int, seeds: int, **settings: object) -> list[Member]:
    study = {"preset": "gridworld", "seeds": seeds, "settings": {**SETTINGS, "epochs": epochs, **settings}}
    return study_of({**study, "variant": [{"name": "a"}]}).members(out, 1)


def results(path: Path) -> dict[str, bytes]:
    """What a run found, without the seconds that it took."""
    names = ("config.json", "domain.json", "steps.csv", "policy.safetensors", "best.safetensors")
    return {name: (path / name).read_bytes() for name in names}


def notes(member: Member, word: str) -> list[str]:
    return [line for line in log_path(member).read_text().splitlines() if line.startswith(word)]


@pytest.mark.torture  # a minute on a quiet machine, many on a busy one
def test_a_node_is_killed_in_the_middle_and_all_runs_end_as_on_one_machine(nodes: Any, tmp_path: Path) -> None:
    """Eight runs. Each is finished once, and one of those on the lost node goes on from where it stood."""
    members = members_of(tmp_path / "there", epochs=60, seeds=8)
    lost = next(node for node in nodes.worker_nodes)
    killed: list[str] = []

    def kill(outcomes: Sequence[Outcome]) -> None:
        going = [o for o in outcomes if o.state == "running" and o.epoch >= 3]
        there = [o for o in going if any(lost.node_id[:8] in line for line in notes(o.member, "begun"))]
        if there and not killed:
            killed.append(there[0].member.name)
            nodes.remove_node(lost, allow_graceful=False)

    outcomes = run_members(members, RayEngine(nodes.address), 8, kill)
    assert [o.state for o in outcomes] == ["done"] * 8
    assert killed
    assert all(len(notes(m, "finished")) == 1 for m in members)
    (member,) = [m for m in members if m.name == killed[0]]
    assert (len(notes(member, "lost")), len(notes(member, "resumed"))) == (1, 1)
    for member in members:
        explore(member.config, tmp_path / "here" / member.name)
        assert results(member.path) == results(tmp_path / "here" / member.name)


@pytest.mark.torture  # a minute on a quiet machine, many on a busy one
def test_a_driver_is_killed_the_tasks_end_and_the_same_command_goes_on(nodes: Any, tmp_path: Path) -> None:
    """On a path that all nodes see. What works on the run is found by the lock that it holds."""
    pairs = {**SETTINGS, "epochs": 100_000}
    flags = [f"{name}={value}" for name, value in pairs.items()]
    out = tmp_path / "out"
    command = [sys.executable, "-m", "mepol", "sweep", "gridworld", "--seeds", "1", "--out", str(out)]
    command += ["--engine", "ray", "--address", nodes.address, "--storage", "shared", "--set", *flags]
    run, log = out / "gridworld-seed-0", out / "logs" / "gridworld-seed-0.log"

    def begin() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)

    driver = begin()
    wait(lambda: driver.poll() is not None or ((run / "metrics.csv").exists() and epochs(run) > 3))
    worker = int((run / "lock").read_text().split()[1])
    driver.kill()
    driver.wait()
    wait(lambda: not Path(f"/proc/{worker}").exists())
    stood = epochs(run)
    driver = begin()
    wait(lambda: epochs(run) > stood + 3)
    driver.send_signal(signal.SIGINT)
    assert driver.stderr is not None
    said = driver.stderr.read().decode()
    assert driver.wait() == 130
    assert "the same command goes on from there" in said
    assert log.read_text().splitlines()[-1] == "stopped"
    newest = max((run / "checkpoints").iterdir()).stem
    assert int(newest.rpartition("-")[2]) == epochs(run) + 1  # the state of the last epoch reached the disk
    assert "resumed" in log.read_text()


def epochs(run: Path) -> int:
    """The number of the newest whole row."""
    return (run / "metrics.csv").read_text().count("\n") - 2


def wait(until: Any, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.1)


def test_a_run_that_cannot_be_made_fails_in_its_own_words_and_stops_nobody(nodes: Any, tmp_path: Path) -> None:
    good, bad = members_of(tmp_path, 1, 1), members_of(tmp_path, 1, 1, env="NoSuch-v0")
    bad = [Member("b", bad[0].config, tmp_path / "b-seed-0")]
    outcomes = run_members([*good, *bad], RayEngine(nodes.address), 2)
    assert [o.state for o in outcomes] == ["done", "failed"]
    assert "NoSuch" in outcomes[1].reason

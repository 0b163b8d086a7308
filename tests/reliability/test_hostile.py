"""Run directories in which paths are links, hard links or pipes to something outside: nothing outside is touched.

What lies outside is real and whole, so that a command that reads it goes on to where it writes.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from crash import SMALL, Ended, Ledger, Nursery, argv_of, copy, explore_argv

Find = Callable[[str], Path]
LINKS = ("link", "hard link", "pipe")
DRAWN = ("policy.mp4", "coverage.gif", "goals.csv", "goals.png", "entropy.png", "coverage.png")
STRAY = (*(f"figures/{name}" for name in DRAWN), "tensorboard", "best.safetensors", "heatmaps/epoch-00012.png")
"""What a command may write that is not in every run."""


def make_foreign(path: Path, kind: str, outside: Path) -> None:
    """Put a link or a pipe where `path` was; what it was lies outside from now on."""
    outside.mkdir(exist_ok=True)
    away = outside / f"{len(list(outside.iterdir()))}-{path.name}"
    if path.exists():
        shutil.move(path, away)
    elif path.suffix:
        away.write_text("precious")
    else:
        away.mkdir()
        (away / "precious.txt").write_text("precious")
    path.parent.mkdir(exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "hard link" and away.is_file():
        path.hardlink_to(away)
    else:
        path.symlink_to(away)


def digest(folder: Path) -> str:
    """Of names, kinds and contents of everything below `folder`."""
    content = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        kind = "link" if path.is_symlink() else "folder" if path.is_dir() else "file" if path.is_file() else "other"
        content.update(f"{path.relative_to(folder)} {kind}\n".encode())
        if kind == "file":
            content.update(path.read_bytes())
    return content.hexdigest()


def entries(run: Path) -> list[str]:
    """Everything in a run directory, and what a command may add to it; folders after what is in them."""
    found = {str(path.relative_to(run)) for path in run.rglob("*")} | set(STRAY)
    return sorted(found, key=lambda name: (-name.count("/"), name))


def spoil(run: Path, outside: Path, rng: random.Random) -> list[str]:
    """Make some of a run's entries foreign, or all of them; returns which."""
    names = entries(run)
    chosen = names if rng.random() < 0.1 else rng.sample(names, rng.choice((1, 1, 1, 2, 4, 12)))
    done = []
    for name in sorted(chosen, key=names.index):
        if any((run / parent).is_symlink() or (run / parent).is_fifo() for parent in Path(name).parents):
            continue
        kind = rng.choice(LINKS)
        make_foreign(run / name, kind, outside)
        done.append(f"{name}: {kind}")
    return done


HORIZON = ("--trajectories", "20", "--until", "20", "--points", "2")
COMMANDS: dict[str, Callable[[Path, Path], list[str]]] = {
    "resume": lambda run, new: ["resume", str(run)],
    "resume longer": lambda run, new: ["resume", str(run), "--epochs", "13"],
    "resume and log": lambda run, new: ["resume", str(run), "--log", "tensorboard"],
    "explore": lambda run, new: explore_argv(run),
    "evaluate": lambda run, new: ["evaluate", str(run), "--trajectories", "2", "--eps", "1e-9"],
    "animate": lambda run, new: ["animate", str(run)],
    "goals": lambda run, new: ["goals", str(run), "--trajectories", "2"],
    "compare": lambda run, new: ["compare", str(run), "--out", str(run)],
    "horizon": lambda run, new: [
        "horizon",
        str(run),
        "--trajectories",
        "20",
        "--until",
        "20",
        "--points",
        "2",
        "--out",
        str(run),
    ],
    "finetune": lambda run, new: argv_of("trpo", new, "--init", str(run), length=0),
    "video": lambda run, new: ["video", str(run), "--steps", "2"],
}
SLOW = ("video", "animate", "resume and log")
OFTEN = [name for name in COMMANDS if name not in SLOW]


def is_decent(ended: Ended, what: object) -> None:
    assert ended.code in (0, 1, 2), (what, ended.code, ended.text[-1500:])  # None is a hang
    assert "Traceback" not in ended.text, (what, ended.text[-1500:])


def attack(
    nursery: Nursery, whole: Path, home: Path, seed: int, commands: list[str], ledger: Ledger, *, figures: bool = False
) -> None:
    """One hostile directory, and commands on it; figures: also those that a resume draws at its end."""
    rng = random.Random(seed)
    run, outside = copy(whole, home / f"run-{seed}"), home / f"outside-{seed}"
    done = spoil(run, outside, rng)
    before = digest(outside)
    for name in commands:
        ended = nursery.start(COMMANDS[name](run, home / f"new-{seed}"), figures=figures).wait(60)
        is_decent(ended, (seed, name, done))
        assert digest(outside) == before, (seed, name, done)
    ledger.note("run directory with links and pipes", "a named error, or none", tried=1)
    for path in (run, outside):
        shutil.rmtree(path)


@pytest.mark.parametrize("kind", ["mepol", "sac"])
def test_nothing_outside_a_hostile_directory_is_touched(
    kind: str, nursery: Nursery, references: Find, tmp_path: Path, ledger: Ledger
) -> None:
    for seed in range(10):
        attack(nursery, references(kind), tmp_path, seed, [OFTEN[seed % len(OFTEN)]], ledger)


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["mepol", "sac"])
def test_nothing_outside_many_hostile_directories_is_touched(
    kind: str, nursery: Nursery, references: Find, tmp_path: Path, ledger: Ledger
) -> None:
    for seed in range(1000, 1100):
        rng = random.Random(-seed)
        commands = [*rng.sample(OFTEN, 3), *([rng.choice(SLOW)] if seed % 4 == 0 else [])]
        attack(nursery, references(kind), tmp_path, seed, commands, ledger, figures=True)


@pytest.mark.parametrize(
    ("command", "name", "kind"),
    [
        ("video", "figures/policy.mp4", "link"),
        ("animate", "figures/coverage.gif", "hard link"),
        *(("goals", "figures/goals.csv", kind) for kind in LINKS),
        ("goals", "figures", "link"),
        *(("resume", "lock", kind) for kind in LINKS),
        ("resume", "heatmaps", "link"),
        *(("compare", "curves.csv", kind) for kind in LINKS),
    ],
)
def test_what_a_command_would_overwrite_is_refused(
    command: str, name: str, kind: str, nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    run, outside = copy(reference, tmp_path / "run"), tmp_path / "outside"
    make_foreign(run / name, kind, outside)
    before = digest(outside)
    ended = nursery.start(COMMANDS[command](run, tmp_path / "new"), figures=True).wait(60)
    assert ended.code == 1, ended.text
    assert "Traceback" not in ended.text
    assert name.rpartition("/")[2] in ended.text
    assert digest(outside) == before
    ledger.note("run directory with links and pipes", "a named error, or none")


def settings(argv: tuple[str, ...]) -> list[str]:
    """The flags of a command as the settings of a sweep."""
    names = [name.removeprefix("--").replace("-", "_") for name in argv[::2]]
    values = [f"[{value}]" if name == "hidden" else value for name, value in zip(names, argv[1::2], strict=True)]
    return [f"{name}={value}" for name, value in zip(names, values, strict=True)]


@pytest.mark.parametrize("kind", LINKS)
@pytest.mark.parametrize("name", ["logs", "logs/gridworld-seed-0.log", "lock", "gridworld-seed-0"])
def test_a_sweep_writes_through_no_link(name: str, kind: str, nursery: Nursery, tmp_path: Path, ledger: Ledger) -> None:
    out, outside = tmp_path / "out", tmp_path / "outside"
    out.mkdir()
    make_foreign(out / name, kind, outside)
    before = digest(outside)
    argv = ["sweep", "gridworld", "--seeds", "1", "--out", str(out), "--set", *settings(SMALL), "epochs=1"]
    ended = nursery.start(argv, figures=True).wait(60)
    assert ended.code == 1, ended.text
    is_decent(ended, name)
    assert digest(outside) == before
    ledger.note(
        "sweep's folder with links and pipes", "OUT/logs is a symbolic link, and nothing is written outside OUT"
    )


MINE = {
    "metrics.csv": "epoch,loss\n1,2\n",
    "steps.csv": "mine\n",
    "lock": "my own lock\n",
    ".config.json.x.tmp": "mine",
    ".notes.tmp": "mine",
    "notes.txt": "mine",
    "domain.json": "{}",
    "initial.safetensors": "mine",
    "figures/mine.png": "mine",
    "checkpoints/epoch-00001.safetensors": "mine",
}


@pytest.mark.parametrize("name", MINE)
def test_a_users_own_files_are_not_debris(name: str, nursery: Nursery, tmp_path: Path, ledger: Ledger) -> None:
    out = tmp_path / "out"
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text(MINE[name])
    before = digest(out)
    ended = nursery.run(explore_argv(out))
    assert ended.code == 1
    assert "already exists and is not empty; choose another --out" in ended.text
    assert digest(out) == before
    ledger.note("--out with a file of the user's", "OUT already exists and is not empty; choose another --out, ...")


def race(nursery: Nursery, out: Path, ledger: Ledger) -> None:
    """Three at once into one directory: one wins, the others say why they do not."""
    ends = nursery.run_all([(explore_argv(out, epochs=1), {})] * 3)
    assert sorted(ended.code or 0 for ended in ends) == [0, 1, 1], [ended.text for ended in ends]
    for ended in ends:
        is_decent(ended, out)
        assert ended.code == 0 or "is in use by process" in ended.text or "already exists" in ended.text
    ledger.note("three explorations at once into one directory", "RUN is in use by process 1234; ...")


def test_of_three_at_once_one_wins(nursery: Nursery, tmp_path: Path, ledger: Ledger) -> None:
    for i in range(3):
        race(nursery, tmp_path / f"run-{i}", ledger)


@pytest.mark.torture
def test_of_three_at_once_one_wins_each_time(nursery: Nursery, tmp_path: Path, ledger: Ledger) -> None:
    for i in range(25):
        race(nursery, tmp_path / f"run-{i}", ledger)

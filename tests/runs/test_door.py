"""The one door for every write: atomic, inside, and only into plain files of ours."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mepol.errors import RunError
from mepol.runs.files import Door, read_text


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside.txt"
    path.write_text("mine")
    return path


@pytest.fixture
def door(tmp_path: Path) -> Door:
    (tmp_path / "run").mkdir()
    return Door(tmp_path / "run")


def test_a_file_is_replaced_and_nothing_else_is_left(door: Door) -> None:
    door.folder("figures")
    for text in ("one", "two"):
        assert door.write_text("figures/a.txt", text).read_text() == text
    assert [p.name for p in (door.root / "figures").iterdir()] == ["a.txt"]
    door.append("figures/a.txt", " three")
    assert (door.root / "figures/a.txt").read_text() == "two three"
    door.remove("figures/a.txt")
    door.remove("figures/a.txt")  # is not there any more
    assert list((door.root / "figures").iterdir()) == []


def test_a_file_that_somebody_removed_is_not_appended_to(door: Door) -> None:
    with pytest.raises(RunError, match=r"cannot write .*metrics\.csv: No such file"):
        door.append("metrics.csv", "1,2\n")
    assert list(door.root.iterdir()) == []


@pytest.mark.parametrize("name", ["../outside.txt", "a/../../outside.txt", "/etc/passwd", "", "."])
def test_no_name_climbs_out(door: Door, outside: Path, name: str) -> None:
    for act in (lambda: door.write(name, b"x"), lambda: door.append(name, "x"), lambda: door.remove(name)):
        with pytest.raises(RunError):
            act()
    assert outside.read_text() == "mine"


@pytest.mark.parametrize("act", ["write", "append"])
@pytest.mark.parametrize("kind", ["link", "hard link", "fifo", "folder"])
def test_only_a_plain_file_of_its_own_is_written(door: Door, outside: Path, act: str, kind: str) -> None:
    target = door.root / "policy.mp4"
    {
        "link": lambda: target.symlink_to(outside),
        "hard link": lambda: target.hardlink_to(outside),
        "fifo": lambda: os.mkfifo(target),
        "folder": lambda: target.mkdir(),
    }[kind]()
    with pytest.raises(RunError, match=r"symbolic link|hard link|not a plain file"):
        door.write("policy.mp4", b"x") if act == "write" else door.append("policy.mp4", "x")
    assert outside.read_text() == "mine"
    assert [p.name for p in door.root.iterdir()] == ["policy.mp4"]


@pytest.mark.parametrize("act", [lambda d: d.write("figures/a.png", b"x"), lambda d: d.folder("figures")])
def test_a_linked_folder_is_refused(door: Door, tmp_path: Path, act: object) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (door.root / "figures").symlink_to(elsewhere)
    with pytest.raises(RunError, match="symbolic link"):
        act(door)  # type: ignore[operator]
    assert list(elsewhere.iterdir()) == []


def test_a_link_is_removed_and_not_what_it_points_to(door: Door, outside: Path) -> None:
    (door.root / "old.csv").symlink_to(outside)
    door.remove("old.csv")
    assert outside.read_text() == "mine"
    assert list(door.root.iterdir()) == []


def test_the_root_may_be_reached_through_a_link(door: Door, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(door.root)
    Door(tmp_path / "alias").write("a.txt", b"x")
    assert (door.root / "a.txt").read_bytes() == b"x"


def test_leftovers_of_a_kill_go_and_a_users_files_stay(door: Door) -> None:
    for name in (".config.json.0a1b2c3d.mepol-tmp", "notes.tmp", ".hidden"):
        (door.root / name).write_text("x")
    door.remove_leftovers()
    assert sorted(p.name for p in door.root.iterdir()) == [".hidden", "notes.tmp"]


@given(st.text(max_size=40))
def test_any_text_is_written_and_none_of_it_is_lost_but_lone_surrogates(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Door(Path(folder)).write_text("a.txt", text)
        assert read_text(path, 1000) == text.encode("utf-8", errors="replace").decode()

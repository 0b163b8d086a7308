"""A run directory on its way: whoever is killed while he unpacks leaves one that can be gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from mepol.cluster.parcels import Outbox, Parcel, pack, unpack
from mepol.errors import RunError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import explore, resume
from mepol.exploration.study import study_of
from mepol.runs.callbacks import Progress
from mepol.runs.directory import RunDirectory

SMALL = {"horizon": 40, "trajectories": 3, "hidden": [8], "zero_mean_steps": 2, "evaluation_trajectories": 4}
SETTINGS = {**SMALL, "k": 4, "max_steps": 1, "eps": 1e-12, "epochs": 3, "checkpoint_epochs": 1, "threads": 1}


def config() -> ExploreConfig:
    return study_of({"preset": "gridworld", "settings": SETTINGS}).variants["gridworld"]


def results(path: Path) -> dict[str, bytes]:
    """What a run found, without the seconds that it took."""
    names = ("config.json", "domain.json", "steps.csv", "policy.safetensors", "best.safetensors")
    names += ("heatmaps/epoch-00003.csv", "checkpoints/epoch-00003.safetensors")
    return {name: (path / name).read_bytes() for name in names}


def test_wherever_unpacking_is_cut_short_the_run_is_begun_or_resumed_to_the_same_end(tmp_path: Path) -> None:
    parcels: list[Parcel] = []
    outbox = Outbox(tmp_path / "there")

    def post(progress: Progress) -> None:
        parcels.append(outbox.changes(finished=progress.turn == 3))

    explore(config(), tmp_path / "there", report=post)
    true = results(tmp_path / "there")
    cuts = [(at, count) for at, parcel in enumerate(parcels) for count in range(len(parcel))]
    for at, count in cuts[:: 1 + len(cuts) // 16] + cuts[-2:]:
        here = tmp_path / f"cut-{at}-{count}"
        for parcel in parcels[:at]:
            unpack(parcel, here)
        with pytest.raises(RunError, match="not the name of a file"):
            unpack((*parcels[at][:count], ("../cut", b"")), here)
        if not here.exists():
            assert at == 0
            explore(config(), here)
        else:
            assert not RunDirectory.open(here).is_finished or parcels[at][count][1] is None
            resume(here)
        assert results(here) == true, (at, count)
    unpack(pack(tmp_path / "there"), tmp_path / "copy")
    assert dict(pack(tmp_path / "copy")) == dict(pack(tmp_path / "there"))
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").touch()
    with pytest.raises(RunError, match="remove it"):
        unpack(pack(tmp_path / "there"), tmp_path / "taken")


def test_a_parcel_cannot_write_outside_its_directory(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "run" / "checkpoints").symlink_to(tmp_path / "other")
    for name in ("../x", "/x", "checkpoints/x"):
        with pytest.raises(RunError, match=r"not the name of a file|symbolic link"):
            unpack(((name, b"x"),), tmp_path / "run")
    assert not list((tmp_path / "other").iterdir())

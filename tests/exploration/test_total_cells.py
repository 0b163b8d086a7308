"""Column `total_cells`: cells that all batches so far have visited, counted by hand, and kept through every stop."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from same import assert_same_run, timeless
from toy import WANDERER, batched

import mepol
from mepol.cli import main
from mepol.envs.coordinates import Grid
from mepol.errors import CheckpointError
from mepol.exploration.drive import explore, resume
from mepol.runs.callbacks import Progress
from mepol.runs.directory import RunDirectory
from mepol.runs.state import EXTRA, MAX_EXTRA, State
from mepol.runs.tensors import DIGEST, read_header, tensor_bytes

OLD = Path(__file__).parents[1] / "runs" / "old"
SMALL: dict[str, Any] = {
    "epochs": 4,
    "horizon": 30,
    "trajectories": 4,
    "k": 4,
    "zero_mean_steps": 3,
    "hidden": (8,),
    "evaluation_trajectories": 4,
    "threads": 1,
    "seed": 5,
    "progress": False,
}
SLOPES = [
    {"name": name, "env": "mepol/GridWorld-v0", "env_kwargs": {"slope": name}, "probability": 0.5}
    for name in ("north", "south")
]
CASES: dict[str, dict[str, Any]] = {
    "gridworld": {"env": "gridworld", "eps": 1e-9},
    "rest on the last": {"env": "gridworld", "eps": 1e-9, "reuse": 3},
    "a growing horizon": {"env": "gridworld", "eps": 1e-9, "epochs": 6, "horizon_start": 10},
    "a line": {"env": "MountainCarContinuous-v0", "heatmap_axes": "0", "heatmap_bins": (90, 1)},
    "ends early": {"env": "CartPole-v1", "ignore_termination": False, "horizon": 60},
    "pictures": {"env": "gridworld", "observations": "pixels", "epochs": 2},
    "worlds": {"envs": SLOPES, "trajectories": 10, "eps": 1e-9},
    "one's own": {"env": batched, "explorer": WANDERER},
    **{name: {"env": "gridworld", "eps": 1e-9, "explorer": name} for name in ("apt", "re3", "rnd")},
}


def cells_by_hand(states: np.ndarray, grid: Grid) -> set[tuple[int, ...]]:
    """The cells that rows of states lie in, one after the other."""
    found = set()
    for state in states:
        shares = [(state[a] - low) / (high - low) for a, low, high in zip(grid.axes, grid.low, grid.high, strict=True)]
        found.add(tuple(min(max(math.floor(s * n), 0), n - 1) for s, n in zip(shares, grid.bins, strict=True)))
    return found


@pytest.mark.parametrize("case", CASES)
def test_it_counts_what_all_batches_so_far_have_visited(case: str, tmp_path: Path) -> None:
    seen: list[Progress] = []
    settings = {**SMALL, **CASES[case]}
    run = mepol.explore(settings.pop("env", None), **settings, out=tmp_path / "run", callbacks=[seen.append])
    grid = run.domain.grid
    assert grid is not None
    visited: set[tuple[int, ...]] = set()
    wanted = []
    for progress in seen[:-1]:
        batch = progress.batch
        assert batch is not None
        for states, steps in zip(batch.placed, batch.lengths, strict=True):
            visited |= cells_by_hand(states[1 : steps + 1], grid)  # s_0 is nobody's doing
        wanted.append(len(visited))
    column = run.metrics["total_cells"]
    assert column[:-1].tolist() == wanted == sorted(wanted)
    assert np.isnan(column[-1])  # the last policy drew no batch
    assert wanted[0] < wanted[-1] < math.prod(grid.bins)


MAXENT = {"trpo_iterations": 1, "trpo_steps": 60, "density_horizon": 30}


@pytest.mark.parametrize(("explorer", "rows"), [("random", 1), ("uniform", 1), ("maxent", 2)])
def test_it_is_empty_where_no_batch_is_drawn(explorer: str, rows: int, tmp_path: Path) -> None:
    own = {"explorer": explorer, "epochs": 1, "eps": 1e-9, **(MAXENT if explorer == "maxent" else {})}
    run = mepol.explore("gridworld", **{**SMALL, **own}, out=tmp_path / "run")
    assert run.domain.grid is not None
    assert [row["total_cells"] for row in timeless(run.path)] == [""] * rows


def test_it_is_empty_where_there_is_no_grid(tiny: Callable, tmp_path: Path) -> None:
    run = explore(tiny(env="InvertedPendulum-v5", heatmap_axes="0,1"), tmp_path / "run")  # unbounded, and no range
    assert run.evaluated_turns() == []
    assert [row["total_cells"] for row in timeless(run.path)] == [""] * 3
    assert not any(name.startswith(EXTRA) for name in safetensors.torch.load_file(run.checkpoints()[0]))


def test_a_kill_at_any_moment_leaves_no_trace_in_it(tiny: Callable, tmp_path: Path) -> None:
    """What is on disk after each epoch, with checkpoints of every third only, goes on to the same numbers."""
    config = tiny(epochs=7, checkpoint_epochs=3, learning_rate=1e-2)

    def kill(progress: Progress) -> None:
        shutil.copytree(progress.run.path, tmp_path / str(progress.turn))

    whole = explore(config, tmp_path / "whole", callbacks=(kill,)).path
    total = [row["total_cells"] for row in timeless(whole)]
    assert len({*total[:-1]}) > 3
    for epoch in range(8):
        resume(tmp_path / str(epoch))
        assert [row["total_cells"] for row in timeless(tmp_path / str(epoch))] == total
        assert_same_run(tmp_path / str(epoch), whole)


def without_the_count(path: Path) -> None:
    """Make of a run what a version without the column would have left."""
    for checkpoint in (path / "checkpoints").iterdir():
        header = read_header(checkpoint, CheckpointError, "")
        del header[DIGEST]
        tensors = safetensors.torch.load_file(checkpoint)
        assert any(name.startswith(EXTRA) for name in tensors)
        kept = {name: tensor for name, tensor in tensors.items() if not name.startswith(EXTRA)}
        checkpoint.write_bytes(tensor_bytes(kept, header))
    rows = timeless(path)
    names = [name for name in rows[0] if name != "total_cells"]
    lines = [",".join(names), *(",".join(row[name] for name in names) for row in rows)]
    (path / "metrics.csv").write_text("\n".join(lines) + "\n")


def test_a_run_of_an_earlier_version_goes_on_without_it(tiny: Callable, tmp_path: Path) -> None:
    whole = explore(tiny(epochs=4), tmp_path / "whole").path
    path = explore(tiny(epochs=2), tmp_path / "run").path
    without_the_count(path)
    assert np.isnan(mepol.open(path).metrics["total_cells"]).all()
    for length in (3, 4):  # the second time from a checkpoint of today
        resume(path, length=length)
    ours, theirs = timeless(path), timeless(whole)
    assert [row["total_cells"] for row in ours] == [""] * 5
    assert [row["entropy"] for row in ours] == [row["entropy"] for row in theirs]
    assert (path / "policy.safetensors").read_bytes() == (whole / "policy.safetensors").read_bytes()


@pytest.mark.filterwarnings("ignore:.*another version:mepol.errors.MepolWarning")
def test_a_run_of_the_earliest_layout_goes_on_without_it(tmp_path: Path) -> None:
    path = Path(shutil.copytree(OLD / "explore", tmp_path / "run"))
    run = mepol.resume(path, length=4, progress=False)
    assert run.domain.grid is not None
    assert [row["total_cells"] for row in timeless(path)] == [""] * 5


@pytest.mark.parametrize("axes", ["x:-5:6:20,y:-6:6:20", "x:-6:6:7,y:-6:6:9", "y,x"])
def test_it_ends_where_the_run_is_given_another_grid(axes: str, tiny: Callable, tmp_path: Path) -> None:
    path = explore(tiny(epochs=2), tmp_path / "run").path
    before = [row["total_cells"] for row in timeless(path)]
    old = json.loads((path / "domain.json").read_text())["grid"]
    assert main(["heatmaps", str(path), "--axes", axes, "--trajectories", "3", "--replace"]) == 0
    assert json.loads((path / "domain.json").read_text())["grid"] != old
    resume(path, length=4)
    assert [row["total_cells"] for row in timeless(path)] == [*before[:2], "", "", ""]


def test_it_goes_on_where_the_grid_stays(tiny: Callable, tmp_path: Path) -> None:
    whole = explore(tiny(epochs=4), tmp_path / "whole").path
    path = explore(tiny(epochs=2), tmp_path / "run").path
    assert main(["heatmaps", str(path), "--trajectories", "3", "--replace"]) == 0
    resume(path, length=4)
    assert [row["total_cells"] for row in timeless(path)] == [row["total_cells"] for row in timeless(whole)]


def test_a_checkpoint_may_hold_something_extra_of_a_bounded_size() -> None:
    own = State({}, {}, extra={"a": torch.zeros(2), "b": torch.zeros(3)})
    own.check({}, Path("file"))
    own.check({"extra.a": ([7], "F64"), "extra.other": ([MAX_EXTRA], "BOOL")}, Path("file"))
    with pytest.raises(CheckpointError, match=r"unexpected tensor 'extra\.other'"):
        own.check({"extra.other": ([MAX_EXTRA + 1], "BOOL")}, Path("file"))
    for strange in ({"extra.a": torch.ones(2)}, {"extra.a": torch.ones(2), "extra.b": torch.ones(4)}):
        own.restore(strange)  # all or nothing
        assert not any(bool(tensor.any()) for tensor in own.extra.values())
    own.restore({"extra.a": torch.ones(2), "extra.b": torch.ones(3)})
    assert all(bool(tensor.all()) for tensor in own.extra.values())


def test_the_checkpoint_is_hardly_larger(tiny: Callable, tmp_path: Path) -> None:
    """A byte per cell."""
    run: RunDirectory[Any, Any] = explore(tiny(epochs=1), tmp_path / "run")
    found = safetensors.torch.load_file(run.checkpoints()[0])
    extra = {name: tensor for name, tensor in found.items() if name.startswith(EXTRA)}
    assert sum(tensor.nbytes for tensor in extra.values()) == 20 * 20 + 8

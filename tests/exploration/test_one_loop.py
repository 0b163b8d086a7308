"""One loop for every explorer: the same files, the same checkpoints, and a stop at any epoch leaves no trace."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from same import Stopped, assert_same_run, files_of, stop_after
from toy import Toy, batched

import mepol
from mepol.cli import main
from mepol.errors import ConfigError, MepolWarning, RunError
from mepol.exploration.config import ExploreConfig
from mepol.exploration.drive import explore, resume
from mepol.exploration.maxent.config import MaxEntConfig
from mepol.runs.callbacks import Progress, StopAt
from mepol.runs.directory import RunDirectory
from mepol.runs.policies import load_policy, policy_header, with_header

EPOCHS = {"mepol": 3, "maxent": 2, "random": 0, "uniform": 0, "apt": 2, "re3": 2, "rnd": 2}
RIVAL = MaxEntConfig(
    mixture_size=2,
    density_horizon=30,
    density_trajectories=4,
    density_bandwidth=0.5,
    trpo_iterations=1,
    trpo_steps=60,
)


@pytest.fixture(scope="module")
def settings(tiny: Callable) -> Callable[..., ExploreConfig]:
    """A run of an explorer that is measured at each epoch."""

    def make(explorer: str, **changes: Any) -> ExploreConfig:
        own = {"rival": RIVAL} if explorer == "maxent" else {}
        return tiny(
            **{
                "explorer": explorer,
                "epochs": EPOCHS[explorer] or 3,
                "evaluate_every": 1,
                "checkpoint_epochs": 1,
                "hidden": (8,),
                **own,
                **changes,
            }
        )

    return make


@pytest.fixture(scope="module")
def whole(settings: Callable, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each explorer that nothing stopped."""
    folder = tmp_path_factory.mktemp("whole")
    return {name: explore(settings(name), folder / name).path for name in EPOCHS}


@pytest.mark.parametrize("explorer", EPOCHS)
def test_every_explorer_leaves_the_same_files(explorer: str, whole: dict[str, Path]) -> None:
    last = EPOCHS[explorer]
    found = set(files_of(whole[explorer]))
    kept = {f"checkpoints/epoch-{e:05d}.safetensors" for e in range(last + 1)[-2:]}
    assert {name for name in found if name.startswith("checkpoints/")} == kept
    assert {name for name in found if name.startswith("heatmaps/")} == {
        f"heatmaps/epoch-{e:05d}.csv" for e in range(last + 1)
    }
    top = {"config.json", "domain.json", "metrics.csv", "steps.csv", "lock"}
    assert found - kept >= top | {f"{name}.safetensors" for name in ("policy", "initial", "best")}
    run = mepol.open(whole[explorer])
    assert run.finished
    assert run.metrics["epoch"].tolist() == list(range(last + 1))
    for which in ("initial", "best", "policy"):
        assert type(getattr(run, which)) is type(run.policy)


@pytest.mark.parametrize(("explorer", "epoch"), [(n, e) for n, last in EPOCHS.items() for e in range(last + 1)])
def test_a_run_stopped_after_any_epoch_goes_on_to_the_same_bits(
    explorer: str, epoch: int, settings: Callable, whole: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(Stopped):
        explore(settings(explorer), tmp_path / "run", callbacks=(stop_after(epoch),))
    assert len(mepol.open(tmp_path / "run").metrics["epoch"]) == epoch + 1
    resume(tmp_path / "run")
    assert_same_run(tmp_path / "run", whole[explorer])


def test_a_run_stopped_at_every_epoch_goes_on_to_the_same_bits(
    settings: Callable, whole: dict[str, Path], tmp_path: Path
) -> None:
    """No checkpoint is due here: each is written because the run is being left."""
    with pytest.raises(Stopped):
        explore(settings("mepol", checkpoint_epochs=100), tmp_path / "run", callbacks=(stop_after(0),))
    for epoch in (1, 2, 3):
        with pytest.raises(Stopped):
            resume(tmp_path / "run", callbacks=(stop_after(epoch),))
    assert_same_run(resume(tmp_path / "run").path, whole["mepol"], settings=False)


@pytest.mark.parametrize("explorer", EPOCHS)
def test_the_best_policy_says_its_epoch_and_score(explorer: str, whole: dict[str, Path], settings: Callable) -> None:
    run = mepol.open(whole[explorer])
    best = int(np.argmax(run.metrics["index"]))
    header = policy_header(whole[explorer] / "best.safetensors")
    assert (int(header["epoch"]), float(header["score"])) == (best, run.metrics["index"][best])


def test_the_best_policy_is_the_one_of_its_epoch(settings: Callable, whole: dict[str, Path], tmp_path: Path) -> None:
    best = int(policy_header(whole["mepol"] / "best.safetensors")["epoch"])
    stopped = explore(settings("mepol", epochs=best), tmp_path / "run")
    ours, theirs = load_policy(whole["mepol"] / "best.safetensors"), load_policy(stopped.policy_path())
    for name, tensor in theirs.state_dict().items():
        np.testing.assert_array_equal(ours.state_dict()[name], tensor)


def test_a_run_that_is_made_longer_keeps_what_it_had_measured(tiny: Callable, tmp_path: Path) -> None:
    path = explore(tiny(epochs=1), tmp_path / "run").path
    old = RunDirectory.open(path).rows()[1]
    visits = RunDirectory.open(path).load_visits(1)
    run = resume(path, length=3)
    new = run.rows()[1]
    for column in ("index", "discrete_entropy", "pooled_entropy", "cells"):
        assert getattr(new, column) == getattr(old, column) is not None
    assert new.entropy is not None  # and the policy was improved
    np.testing.assert_array_equal(run.load_visits(1), visits)
    assert [row.index is not None for row in run.rows()] == [True, True, False, True]
    assert [row.index is not None for row in resume(path, length=4).rows()] == [True, True, False, True, True]


def test_the_best_policy_outlives_a_run_that_goes_on(tiny: Callable, tmp_path: Path) -> None:
    path = explore(tiny(epochs=1), tmp_path / "run").path
    best = path / "best.safetensors"
    best.write_bytes(with_header((path / "policy.safetensors").read_bytes(), {"epoch": "1", "score": "99.0"}))
    kept = best.read_bytes()
    index = mepol.resume(path, length=3, progress=False).metrics["index"]
    assert np.isfinite(index[[0, 1, 3]]).all()
    assert best.read_bytes() == kept
    best.write_bytes(with_header(kept, {"score": "-99.0"}))
    resume(path, length=4)
    assert policy_header(best)["epoch"] in ("3", "4")  # both are measured now; the better of them is kept


# --- checkpoints of other runs, and resumes that fail --------------------------------------------------------------


@pytest.mark.parametrize("explorer", EPOCHS)
def test_a_checkpoint_of_another_run_is_refused(
    explorer: str, settings: Callable, whole: dict[str, Path], tmp_path: Path
) -> None:
    """Equal shapes, another seed: the digits would be believed, and belong to nobody."""
    path = explore(settings(explorer, seed=8), tmp_path / "run").path
    for checkpoint in (path / "checkpoints").iterdir():
        shutil.copy(whole[explorer] / "checkpoints" / checkpoint.name, checkpoint)
    before = files_of(path)
    with (
        pytest.warns(MepolWarning, match="is of another run"),
        pytest.raises(RunError, match="has no checkpoint that can be read; start again with mepol explore"),
    ):
        resume(path)
    assert files_of(path) == before


def test_one_foreign_checkpoint_is_passed_over_for_the_one_before(
    settings: Callable, whole: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(whole["mepol"], tmp_path / "run")
    other = explore(settings("mepol", seed=8), tmp_path / "other").path
    shutil.copy(other / "checkpoints/epoch-00003.safetensors", tmp_path / "run/checkpoints/epoch-00003.safetensors")
    with pytest.warns(MepolWarning, match="is of another run; falling back to the checkpoint before"):
        resume(tmp_path / "run")
    assert (tmp_path / "run/checkpoints/epoch-00003.bad").is_file()
    (tmp_path / "run/checkpoints/epoch-00003.bad").unlink()
    assert_same_run(tmp_path / "run", whole["mepol"])


def _no_rows(path: Path) -> None:
    table = path / "metrics.csv"
    table.write_text(table.read_text().splitlines()[0] + "\n")


def _damage(path: Path) -> None:
    for checkpoint in (path / "checkpoints").iterdir():
        checkpoint.write_bytes(checkpoint.read_bytes()[:-9])


@pytest.mark.parametrize(
    ("harm", "options", "fault", "message"),
    [
        (_no_rows, {}, RunError, "does not have one row for each epoch below 3"),
        (_damage, {}, RunError, "has no checkpoint that can be read"),
        (lambda path: (path / "domain.json").write_text("{}"), {}, RunError, r"domain\.json"),
        (lambda path: None, {"length": 1}, ConfigError, "already stands at epoch 3"),
        (lambda path: None, {"length": -1}, ConfigError, "epochs = -1"),
        (lambda path: (path / "metrics.csv").write_text("epoch,samples\n0,x\n"), {}, RunError, "line 2"),
    ],
    ids=["rows", "checkpoints", "domain", "shorter", "negative", "cells"],
)
@pytest.mark.filterwarnings("ignore::mepol.errors.MepolWarning")
def test_a_resume_that_fails_changes_nothing(
    harm: Callable, options: dict, fault: type, message: str, whole: dict[str, Path], tmp_path: Path
) -> None:
    path = Path(shutil.copytree(whole["mepol"], tmp_path / "run"))
    harm(path)
    before = files_of(path)
    with pytest.raises(fault, match=message):
        resume(path, **options)
    assert files_of(path) == before


# --- what the directory knows of its environment -------------------------------------------------------------------


@pytest.fixture
def toy() -> Iterator[str]:
    gymnasium.register("mepol-tests/Toy-v0", entry_point=Toy)
    yield "mepol-tests/Toy-v0"
    gymnasium.registry.pop("mepol-tests/Toy-v0", None)


def test_a_run_is_drawn_compared_and_animated_without_its_environment(
    toy: str, tiny: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (1, 2):
        explore(tiny(env=toy, seed=seed, evaluate_every=1, heatmap_axes="north,east"), tmp_path / str(seed))
    domain = (tmp_path / "1" / "domain.json").read_text()
    del gymnasium.registry[toy]
    run = mepol.open(tmp_path / "1")
    assert run.domain.names == ("east", "north")
    assert run.domain.grid.axes == (1, 0)
    figures = run.figures()
    assert {p.name for p in figures} == {"entropy.png", "coverage.png"}
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in figures)
    assert len(list((tmp_path / "1" / "heatmaps").glob("*.png"))) == 3
    assert main(["compare", str(tmp_path / "1"), str(tmp_path / "2"), "--out", str(tmp_path / "both")]) == 0
    assert (tmp_path / "both" / "index.png").is_file()
    assert main(["animate", str(tmp_path / "1")]) == 0
    assert (tmp_path / "1" / "figures" / "coverage.gif").read_bytes().startswith(b"GIF")
    assert (tmp_path / "1" / "domain.json").read_text() == domain
    capsys.readouterr()
    assert main(["resume", str(tmp_path / "1"), "--epochs", "3"]) == 1  # this does need it
    assert "mepol-tests/Toy-v0" in capsys.readouterr().err


@pytest.mark.parametrize(("fresh", "built"), [(3, 2), (5, 3)])
def test_an_exploration_builds_its_environment_at_most_thrice(fresh: int, built: int, tmp_path: Path) -> None:
    """For the batches, for the survey, for the evaluations, and only once where two of these are as many."""
    made: list[int] = []

    def factory(n: int) -> Any:
        made.append(n)
        return batched(n)

    options = {"horizon": 30, "trajectories": 3, "evaluate_every": 1, "evaluation_trajectories": fresh, "hidden": (8,)}
    run = mepol.explore(factory, epochs=2, out=tmp_path / "run", threads=1, progress=False, **options)
    assert len(made) == built
    run.figures()
    assert run.domain.state_dim == 2
    assert len(made) == built
    mepol.resume(run, length=3, progress=False)
    assert len(made) <= 2 * built


# --- callbacks -----------------------------------------------------------------------------------------------------


def test_a_target_ends_a_run_well_and_a_longer_one_goes_on(tiny: Callable, tmp_path: Path) -> None:
    config = tiny(epochs=5)
    run = explore(config, tmp_path / "run", callbacks=(StopAt("samples", 240),))
    rows = run.rows()
    assert [row.epoch for row in rows] == [0, 1, 2]  # reached in row 1; one more turn measures what that led to
    assert rows[-1].index is not None
    assert rows[-1].entropy is None
    assert run.is_finished
    again = mepol.open(run.path)
    assert (again.finished, again.config.epochs) == (True, 5)
    last = load_policy(run.policy_path()).state_dict()
    on = mepol.resume(run.path, length=5, progress=False)
    assert on.metrics["epoch"].tolist() == [0, 1, 2, 3, 4, 5]
    explore(config, tmp_path / "whole")
    assert_same_run(run.path, tmp_path / "whole", but=("best.safetensors",), old_end=2)
    assert any(not np.array_equal(last[name], tensor) for name, tensor in on.policy.state_dict().items())


def test_a_target_of_no_column_is_named(tiny: Callable, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no column 'indx' to stop at; there are epoch, samples"):
        explore(tiny(), tmp_path / "run", callbacks=(StopAt("indx", 3.0),))


def test_every_callback_is_asked_also_after_one_has_said_stop(tiny: Callable, tmp_path: Path) -> None:
    asked: dict[str, list[int]] = {"first": [], "second": []}

    def first(progress: Progress) -> bool:
        asked["first"].append(progress.turn)
        return progress.turn == 1

    def second(progress: Progress) -> None:
        asked["second"].append(progress.turn)

    run = explore(tiny(epochs=5), tmp_path / "run", callbacks=(first, second))
    assert asked == {"first": [0, 1, 2], "second": [0, 1, 2]}
    assert run.is_finished


def test_only_true_ends_a_run(tiny: Callable, tmp_path: Path) -> None:
    run = explore(tiny(), tmp_path / "run", callbacks=(lambda progress: None, lambda progress: False))
    assert [row.epoch for row in run.rows()] == [0, 1, 2]


def test_a_callback_sees_the_row_the_policy_and_the_batch(tiny: Callable, tmp_path: Path) -> None:
    seen: list[Progress] = []
    run = explore(tiny(), tmp_path / "run", callbacks=(seen.append,))
    assert [p.row for p in seen] == run.rows()
    assert [p.batch is None for p in seen] == [False, False, True]  # the last turn learns from nothing
    assert seen[0].batch.states.shape == (4, 61, 2)
    assert [p.row.samples for p in seen] == [0, 240, 480]
    saved = load_policy(run.policy_path()).state_dict()
    assert all(np.array_equal(saved[name], t) for name, t in seen[-1].policy.state_dict().items())
    assert [p.extra["evaluation"].index for p in seen if p.extra] == [run.rows()[0].index, run.rows()[2].index]

"""Every command on every kind of run: it works, or one sentence says why not."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
from PIL import Image

import mepol
from mepol.cli import main
from mepol.evaluation.assess import assess
from mepol.finetuning.config import FinetuneConfig, IntrinsicConfig, SacConfig, TrpoConfig
from mepol.finetuning.drive import Finetuning, _workshop, finetune
from mepol.run import Run
from mepol.runs.checkpoint import restore
from mepol.runs.directory import RunDirectory
from mepol.runs.machine import MachineConfig
from mepol.runs.policies import policy_header
from mepol.runs.streams import Stream, stream

EXPLORE = [
    *("--horizon", "40", "--trajectories", "4", "--k", "4", "--threads", "1", "--hidden", "8"),
    *("--zero-mean-steps", "2", "--evaluation-trajectories", "5", "--eps", "1e-12"),
]
MAXENT = [
    *("--explorer", "maxent", "--mixture-size", "1", "--trpo-iterations", "1", "--trpo-steps", "80"),
    *("--density-trajectories", "2", "--density-horizon", "40"),
]
FINETUNE = [
    *("--horizon", "20", "--trpo.steps", "40", "--sac.steps", "40", "--sac.updates", "2", "--sac.batch", "8"),
    *("--sac.warmup", "40", "--sac.buffer", "400", "--hidden", "8", "--threads", "1", "--iterations", "2"),
]
TINY = FinetuneConfig(
    task="grid-goal1",
    iterations=2,
    horizon=20,
    hidden=(8,),
    machine=MachineConfig(threads=1),
    trpo=TrpoConfig(steps=40),
    sac=SacConfig(steps=40, updates=2, batch=8, warmup=40, buffer=400),
    intrinsic=IntrinsicConfig(skills=3),
)
EXPLORATIONS, FINETUNINGS = ("mepol", "maxent", "uniform", "random", "re3"), ("trpo", "sac", "smm")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A finished run of a kind; each is made once, and tests only add pictures to it."""
    root = tmp_path_factory.mktemp("kinds")

    def make(kind: str) -> Path:
        out = root / kind
        if out.exists():
            return out
        if kind == "maxent":
            assert main(["explore", "mountain-car", *EXPLORE, *MAXENT, "--out", str(out)]) == 0
        elif kind in EXPLORATIONS:
            assert main(["explore", "gridworld", *EXPLORE, "--explorer", kind, "--epochs", "2", "--out", str(out)]) == 0
        else:
            start = ["--init", str(make("mepol"))] if kind == "trpo" else []
            assert main(["finetune", "grid-goal1", *FINETUNE, *start, "--algo", kind, "--out", str(out)]) == 0
        return out

    return make


def run_main(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    return main(arguments), *capsys.readouterr()


def assert_sentence(err: str, *words: str) -> None:
    assert err.startswith("mepol: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


@pytest.mark.parametrize("kind", [*EXPLORATIONS, *FINETUNINGS])
def test_every_command_opens_every_run(
    kind: str, made: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made(kind)
    few = ["--trajectories", "12", "--eps", "1e-3"]
    for which in ("last", "best", "initial"):
        from_scratch = which == "initial" and kind in ("sac", "smm")
        code, text, err = run_main(["evaluate", str(run), *few, "--which", which, "--json"], capsys)
        if from_scratch:
            assert code == 1
            assert_sentence(err, "began from scratch")
        else:
            found = json.loads(text)
            assert (code, err, found["which"]) == (0, "", which)
            # The same file, measured by hand: the flag chose this policy and no other.
            name = {"last": "policy"}.get(which, which)
            assert found["index"] == index_of(run, mepol.load_policy(run / f"{name}.safetensors"))
    for words in (
        ["goals", str(run), "--trajectories", "6"],
        ["horizon", str(run), *few, "--until", "20", "--points", "2", "--out", str(tmp_path / "h")],
        ["video", str(run), "--steps", "2", "--out", str(tmp_path / "best.gif")],
    ):
        assert run_main([*words, "--which", "best"], capsys)[0] == 0
        if kind in ("sac", "smm"):
            elsewhere = [word.replace("/h", "/other") if word == str(tmp_path / "h") else word for word in words]
            code, _, err = run_main([*elsewhere, "--which", "initial"], capsys)
            assert code == 1
            assert_sentence(err, "began from scratch")
    with Image.open(tmp_path / "best.gif") as film:
        panels = 1 if kind in ("sac", "smm") else 2
        line = 4 * (panels - 1)  # between the halves
        assert (film.n_frames, film.width) == (3, panels * (600 if kind == "maxent" else 480) + line)
    code, text, err = run_main(["compare", str(run), "--out", str(tmp_path / "c")], capsys)
    assert (code, err, "unfinished" in text) == (0, "", False)
    code, text, err = run_main(["animate", str(run)], capsys)
    assert (code, err, "stored no visits" in text) == (0, "", kind in FINETUNINGS)
    code, text, err = run_main(["report", str(run)], capsys)  # with the goals and the animation from above in it
    assert (code, err, text.startswith(f"{run}/figures/report.html (")) == (0, "", True)
    before = {path: path.read_bytes() for path in run.rglob("*.safetensors")}
    assert run_main(["resume", str(run)], capsys)[0] == 0  # a finished run stays what it is
    assert {path: path.read_bytes() for path in run.rglob("*.safetensors")} == before


def index_of(path: Path, policy: object) -> float:
    """The entropy index of `policy` in the run's environment, on the trajectories that `evaluate` plays."""
    run = Run.open(path)
    protocol = dataclasses.replace(run.protocol, trajectories=12, eps=1e-3)
    with run.working(12) as env:
        return assess(policy, env, run.domain, protocol, seed=stream(0, Stream.FRESH)).evaluation.index


def test_runs_of_both_phases_are_measured_side_by_side_and_compared_apart(
    made: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [str(made(kind)) for kind in ("mepol", "trpo", "sac")]
    code, text, err = run_main(["evaluate", *runs, "--trajectories", "6", "--eps", "1e-3", "--json"], capsys)
    assert (code, err) == (0, "")
    found = json.loads(text)
    assert [row["run"] for row in found["runs"]] == runs
    assert [name.split(" horizon")[0] for name in found["groups"]] == [
        *("mepol/GridWorld-v0 mepol", "grid-goal1 trpo", "grid-goal1 sac"),
    ]
    code, _, err = run_main(["compare", *runs], capsys)
    assert code == 2
    assert_sentence(err, "each kind by itself")


def test_resume_goes_on_with_a_fine_tuning(
    made: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for algo in ("trpo", "sac"):
        whole, part = tmp_path / f"{algo}-whole", tmp_path / f"{algo}-part"
        for out, length in ((whole, "3"), (part, "1")):
            words = [*FINETUNE, "--iterations", length, "--algo", algo, "--out", str(out)]
            assert main(["finetune", "grid-goal1", *words]) == 0
        assert run_main(["resume", str(part), "--iterations", "3"], capsys)[0] == 0
        for name in ("policy", "best"):
            paths = [path / f"{name}.safetensors" for path in (whole, part)]
            assert paths[0].read_bytes() == paths[1].read_bytes()
    code, _, err = run_main(["resume", str(part), "--epochs", "9"], capsys)
    assert code == 2
    assert_sentence(err, "--iterations")
    code, _, err = run_main(["resume", str(part), "--stop-index", "1"], capsys)
    assert code == 2
    assert_sentence(err, "which has no index to stop at")
    code, _, err = run_main(["resume", str(made("mepol")), "--iterations", "9"], capsys)
    assert code == 2
    assert_sentence(err, "--epochs")


@pytest.mark.parametrize("algo", ["sac", "smm", "icm", "pseudocount"])
def test_the_policy_of_a_rival_acts_as_the_learners_own_actor(algo: str, tmp_path: Path) -> None:
    run = finetune(dataclasses.replace(TINY, algo=algo), tmp_path / algo)
    policy = mepol.load_policy(run.path / "policy.safetensors")
    assert (policy.widths, policy.skills) == ((2, 8, 2), 3 if algo == "smm" else 0)
    obs = np.random.default_rng(0).uniform(-6, 6, (50, 2))
    skill = np.arange(50) % 3
    with _workshop(run.config, None, None) as (_, learner):
        restore(run, Finetuning(run, learner, None))
        seen = np.concatenate([obs, np.eye(3)[skill]], axis=1) if policy.skills else obs
        theirs, _ = learner.model.predict(seen.astype(np.float32), deterministic=True)
    ours = policy.act_with(skill, obs, np.random.default_rng(0), deterministic=True)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert np.ptp(ours, axis=0).min() > 0
    film = Run.open(run.path).video(tmp_path / "film.gif", steps=2)
    with Image.open(film) as picture:
        assert picture.n_frames == 3


def test_the_best_policy_of_a_fine_tuning_is_the_one_with_the_best_average_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "close_by.py").write_text("def goal(states):\n    return states[:, 0] > -3.8\n")
    monkeypatch.chdir(tmp_path)
    words = [*FINETUNE, "--horizon", "25", "--trpo.steps", "500", "--trpo.kl", "0.05", "--hidden", "16"]
    words += ["--log-std", "-1.5"]
    assert main(["finetune", "close_by:goal", "--env", "gridworld", *words, "--iterations", "5", "--out", "run"]) == 0
    returns = [row.average_return for row in RunDirectory.open(tmp_path / "run").rows()]
    best = int(np.argmax(returns))
    assert 0 < best < 5  # neither the first nor the last, so that it could have been lost
    header = policy_header(tmp_path / "run" / "best.safetensors")
    assert (header["iteration"], float(header["score"])) == (str(best), returns[best])
    words = [*words, "--iterations", str(best), "--out", "until"]
    assert main(["finetune", "close_by:goal", "--env", "gridworld", *words]) == 0
    kept, truth = (safetensors.torch.load_file(p) for p in ("run/best.safetensors", "until/policy.safetensors"))
    assert all(kept[name].equal(truth[name]) for name in truth)


@pytest.mark.parametrize(("start", "algo"), [("uniform", "trpo"), ("uniform", "sac"), ("sac", "sac"), ("smm", "smm")])
def test_a_fine_tuning_starts_from_any_run(start: str, algo: str, made: Callable[[str], Path], tmp_path: Path) -> None:
    words = [*FINETUNE, "--init", str(made(start)), "--algo", algo, "--out", str(tmp_path / "run")]
    assert main(["finetune", "grid-goal1", *words]) == 0
    kept = safetensors.torch.load_file(tmp_path / "run" / "initial.safetensors")
    there = safetensors.torch.load_file(made(start) / "policy.safetensors")
    assert all(kept[name].equal(there[name]) for name in there)


@pytest.mark.parametrize("algo", ["trpo", "sac"])
def test_a_fine_tuning_starts_from_maxent(
    algo: str, made: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "uphill.py").write_text("def goal(states):\n    return states[:, 0] > 0\n")
    monkeypatch.chdir(tmp_path)
    start = made("maxent")
    words = [*FINETUNE, "--env", "mountain-car", "--init", str(start), "--algo", algo, "--iterations", "0"]
    assert main(["finetune", "uphill:goal", *words, "--out", "run"]) == 0
    if algo == "trpo":  # it begins as the mixture's newest policy
        begun, newest = mepol.load_policy("run/policy.safetensors"), mepol.load_policy(start / "policy.safetensors")
        states = np.random.default_rng(0).uniform(-0.1, 0.1, (20, 2))
        actions = [p.act(states, np.random.default_rng(1)) for p in (begun, newest.policies[-1])]
        np.testing.assert_allclose(*actions, atol=1e-5)


def test_trpo_from_a_squashed_policy_is_refused_in_one_sentence(
    made: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*FINETUNE, "--init", str(made("sac")), "--out", str(tmp_path / "run")]
    code, _, err = run_main(["finetune", "grid-goal1", *words], capsys)
    assert code == 2
    assert_sentence(err, "not possible with trpo", "use sac")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("which", ["last", "best", "initial"])
def test_finetune_starts_from_the_policy_that_is_asked_for(
    which: str, made: Callable[[str], Path], tmp_path: Path
) -> None:
    start = made("mepol")
    words = [*FINETUNE, "--init", str(start), "--which", which, "--iterations", "0", "--out", str(tmp_path / "run")]
    assert main(["finetune", "grid-goal1", *words]) == 0
    name = {"last": "policy"}.get(which, which)
    kept = safetensors.torch.load_file(tmp_path / "run" / "initial.safetensors")
    there = safetensors.torch.load_file(start / f"{name}.safetensors")
    assert all(kept[key].equal(there[key]) for key in there)
    others = {n for n in ("policy", "best", "initial") if n != name}
    tensors = [safetensors.torch.load_file(start / f"{n}.safetensors")["layers.0.weight"] for n in others]
    assert any(not kept["layers.0.weight"].equal(other) for other in tensors)

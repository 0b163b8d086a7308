"""Whole fine-tuning runs: they learn, they resume to the bit, they leave what they promise."""

from __future__ import annotations

import dataclasses
import importlib
import sys
import warnings

import numpy as np
import pytest
import safetensors.torch

from mepol.api import begin_finetuning
from mepol.cli import main
from mepol.errors import ConfigError, MepolError, MepolWarning, RunError
from mepol.exploration.presets import PRESETS
from mepol.finetuning.config import FinetuneConfig, IntrinsicConfig, PpoConfig, SacConfig, TrpoConfig, dotted_settings
from mepol.finetuning.drive import FinetuneRun, finetune, measures, resume
from mepol.finetuning.presets import default_config, task_rows
from mepol.finetuning.rows import FINETUNE
from mepol.finetuning.tasks import TASKS
from mepol.runs.directory import RunDirectory
from mepol.runs.machine import MachineConfig
from mepol.runs.policies import load_policy, save_policy
from mepol.runs.tensors import read_header
from mepol.sb3.adapter import Episode
from mepol.sb3.randomness import drawing_from

TINY = FinetuneConfig(
    task="grid-goal1",
    iterations=3,
    horizon=10,
    hidden=(8, 8),
    machine=MachineConfig(threads=1),
    trpo=TrpoConfig(steps=40, value_passes=1, value_minibatches=2, cg_steps=2),
    ppo=PpoConfig(steps=40, passes=1, minibatches=2),
    sac=SacConfig(steps=20, updates=3, batch=8, buffer=1000, warmup=20),
    intrinsic=IntrinsicConfig(skills=2),
)
TIMES = {"sample_s": None, "learn_s": None}


def content(run: FinetuneRun) -> tuple[object, ...]:
    """All that a run has learnt and kept; a checkpoint also says which run it is of, which its first length decides."""
    checkpoint = run.checkpoints()[0]
    header = read_header(checkpoint, RunError, "a checkpoint from")
    learnt = {name: tensor.numpy().tobytes() for name, tensor in safetensors.torch.load_file(checkpoint).items()}
    rows = [dataclasses.replace(row, **TIMES) for row in run.rows()]
    parts = {path.name: path.read_bytes() for path in (run.path / "replay").iterdir()}
    return rows, [header[name] for name in ("turn", "samples", "parts")], learnt, parts


@pytest.mark.parametrize("algo", ["trpo", "ppo", "sac", "smm", "icm", "pseudocount"])
def test_a_resumed_run_equals_one_never_stopped(tmp_path, algo):
    config = dataclasses.replace(TINY, algo=algo)
    whole = finetune(config, tmp_path / "whole")
    assert [row.iteration for row in whole.rows()] == [0, 1, 2, 3]
    finetune(dataclasses.replace(config, iterations=1), tmp_path / "parts")
    resumed = resume(tmp_path / "parts", length=3)
    assert content(resumed) == content(whole)
    last = (tmp_path / "whole" / "policy.safetensors").read_bytes()
    assert (tmp_path / "parts" / "policy.safetensors").read_bytes() == last
    warm = 0 if algo in ("trpo", "ppo") else 20
    assert whole.rows()[-1].samples == warm + 3 * config.steps


def test_a_crash_in_the_middle_costs_nothing_but_the_iteration_under_way(tmp_path):
    class Crash(Exception):
        pass

    def report(progress):
        if progress.row.iteration == 1:
            raise Crash

    with pytest.raises(Crash):
        finetune(TINY, tmp_path / "crashed", report=report)
    resumed = resume(tmp_path / "crashed")
    assert content(resumed) == content(finetune(TINY, tmp_path / "whole"))


def test_a_damaged_checkpoint_is_passed_over_and_a_foreign_one_refused(tmp_path):
    config = dataclasses.replace(TINY, machine=MachineConfig(threads=1, checkpoint_minutes=0.0))
    run = finetune(config, tmp_path / "run")
    newest = run.checkpoints()[0]
    expected = content(run)
    newest.write_bytes(newest.read_bytes()[:-40])
    with pytest.warns(UserWarning, match="falling back"):
        resumed = resume(tmp_path / "run")
    assert content(resumed)[0] == expected[0]
    for path in resumed.checkpoints():
        path.write_bytes(b"nothing")
    with pytest.warns(UserWarning, match="falling back"), pytest.raises(RunError, match="no checkpoint"):
        resume(tmp_path / "run")


def test_what_a_killed_creation_left_is_used_again_and_anything_else_refused(tmp_path):
    left = tmp_path / "left"
    (left / "checkpoints").mkdir(parents=True)
    (left / "metrics.csv").write_text(FINETUNE.metrics.head)
    (left / "initial.safetensors").write_bytes(b"explorer")
    (left / ".config.json.0123abcd.mepol-tmp").write_text("{")
    (left / "lock").write_text("mepol 1\n")
    with RunDirectory.create(left, FINETUNE, TINY, "{}", b"explorer") as run:
        assert (RunDirectory.open(left).config, run.rows()) == (TINY, [])
        assert run.policy_path("initial").read_bytes() == b"explorer"
    assert not list(left.glob(".*"))
    for name, content_ in {"notes.txt": b"", "initial.safetensors": b"another", "metrics.csv": b"x" * 999}.items():
        used = tmp_path / name
        used.mkdir()
        (used / name).write_bytes(content_)
        with (
            pytest.raises(RunError, match="already exists"),
            RunDirectory.create(used, FINETUNE, TINY, "{}", b"explorer"),
        ):
            pass
        assert (used / name).read_bytes() == content_


def test_the_first_policy_of_a_run_is_the_explorer_itself(tmp_path, make_policy):
    explorer = make_policy(2, 2, (16, 12), log_std=-1.5)
    save_policy(explorer, tmp_path / "explorer.safetensors")
    config = dataclasses.replace(TINY, init=str(tmp_path / "explorer.safetensors"), iterations=0)
    run = begin_finetuning(config, tmp_path / "run")
    start = load_policy(run.path / "policy.safetensors")
    assert start.widths == explorer.widths
    states = np.random.default_rng(0).uniform(-6, 6, (9, 2))
    assert np.array_equal(start.act(states, np.random.default_rng(1)), explorer.act(states, np.random.default_rng(1)))
    assert load_policy(run.policy_path("initial")).widths == explorer.widths
    filled = begin_finetuning(dataclasses.replace(config, algo="sac", iterations=1), tmp_path / "sac")
    assert len(filled.rows()) == 2


def test_correlated_noise_is_not_carried_on_by_trpo_and_it_says_so(tmp_path, make_policy):
    explorer = make_policy(2, 2, (16, 12), log_std=-1.5)
    explorer.correlation = 0.75
    save_policy(explorer, tmp_path / "explorer.safetensors")
    config = dataclasses.replace(TINY, init=str(tmp_path / "explorer.safetensors"), iterations=0)
    with pytest.warns(MepolWarning, match=r"correlation 0\.75, which trpo does not carry on"):
        run = begin_finetuning(config, tmp_path / "run")
    start = load_policy(run.path / "policy.safetensors")
    assert start.correlation == 0
    states = np.random.default_rng(0).uniform(-6, 6, (9, 2))
    explorer.correlation = 0.0  # its mean and its spread
    assert np.array_equal(start.act(states, np.random.default_rng(1)), explorer.act(states, np.random.default_rng(1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", MepolWarning)  # SAC's memory is filled with the noise that it has
        begin_finetuning(dataclasses.replace(config, algo="sac"), tmp_path / "sac")


def test_trpo_learns_a_goal_that_is_near(tmp_path, monkeypatch, capsys):
    (tmp_path / "near_goal.py").write_text("def right(states):\n    return states[:, 0] > -3.5\n")
    monkeypatch.chdir(tmp_path)
    config = dataclasses.replace(
        TINY,
        task="near_goal:right",
        env="mepol/GridWorld-v0",
        iterations=12,
        horizon=25,
        log_std=-1.5,
        hidden=(16,),
        trpo=TrpoConfig(steps=500, kl=0.05, value_passes=2),
    )
    rows = finetune(config, tmp_path / "run").rows()
    assert rows[-1].average_return > rows[0].average_return + 0.15
    assert rows[-1].success_rate > rows[0].success_rate + 0.15
    assert main(["finetune", "near_goal:right", "--env", "ant", "--resume", "run"]) == 2
    assert "name that again" in capsys.readouterr().err


def test_a_solved_run_ends_early_and_so_does_its_resumption(tmp_path, monkeypatch):
    (tmp_path / "easy_goal.py").write_text("def anywhere(states):\n    return states[:, 0] > -9\n")
    monkeypatch.chdir(tmp_path)
    config = dataclasses.replace(
        TINY, task="easy_goal:anywhere", env="mepol/GridWorld-v0", iterations=9, stop_return=1.0, stop_after=2
    )
    whole = finetune(config, tmp_path / "whole")
    assert [(row.iteration, row.average_return) for row in whole.rows()] == [(0, 1.0), (1, 1.0), (2, 1.0)]
    assert whole.rows()[-1].learn_s is None  # the last policy is measured alone
    finetune(dataclasses.replace(config, iterations=1), tmp_path / "parts")
    again = resume(tmp_path / "parts", length=9)
    assert content(again) == content(whole)
    before = content(whole)
    resume(tmp_path / "whole")
    assert content(whole) == before
    unsolved = finetune(dataclasses.replace(config, stop_return=1.5, iterations=3), tmp_path / "unsolved")
    assert len(unsolved.rows()) == 4


def test_one_seed_fixes_a_run_and_another_changes_it(tmp_path):
    runs = [finetune(dataclasses.replace(TINY, seed=s), tmp_path / str(i)) for i, s in enumerate((5, 5, 6))]
    policies = [(run.path / "policy.safetensors").read_bytes() for run in runs]
    assert policies[0] == policies[1] != policies[2]


def test_the_global_generators_are_left_as_they_were():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    with drawing_from(np.random.SeedSequence(1)):
        np.random.rand()  # noqa: NPY002
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_measures_of_known_episodes():
    episodes = [Episode(1.0, 4, True, True), Episode(0.0, 10, False, True), Episode(1.0, 2, True, False)]
    assert measures(episodes) == (pytest.approx(2 / 3), 0.5, 3.0, 3)
    assert measures([]) == (None, None, None, 0)


def test_presets_are_the_papers_tables():
    table = {
        "grid-goal1": (100, 1200, 12_000, 1e-4, 12_000),
        "ant-escape": (500, 500, 5000, 1e-2, 5000),
        "ant-jump": (1000, 500, 50_000, 1e-2, 5000),
        "ant-navigate": (1000, 500, 50_000, 1e-2, 5000),
        "humanoid-up": (2000, 2000, 20_000, 1e-2, 6000),
    }
    for name in TASKS:
        c = default_config(name)
        if name in table:
            assert (c.iterations, c.horizon, c.trpo.steps, c.trpo.kl, c.sac.updates) == table[name]
        assert (c.trpo.discount, c.sac.discount, c.sac.learning_rate, c.sac.batch, c.sac.buffer) == (
            *(0.99, 0.99, 3e-4, 256, 10**6),
        )
        explored = PRESETS[TASKS[name].explorer].config.policy
        assert (c.hidden, c.log_std) == (explored.hidden, explored.log_std)


def test_every_setting_of_the_learners_has_a_name_and_presets_lists_their_sources(capsys, monkeypatch):
    config = default_config("grid-goal1")
    settings = dotted_settings(config)
    assert (settings["trpo.kl"], settings["sac.updates"], settings["horizon"]) == (1e-4, 12_000, 1200)
    assert "sac.tau" not in dotted_settings(config, config.rooms)
    assert {row.setting for row in task_rows("grid-goal1")} <= set(settings)
    monkeypatch.setenv("COLUMNS", "150")
    assert main(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("finetune ") for line in lines) == len(TASKS)
    assert any("trpo.kl" in line and "0.0001" in line and "paper, TRPO table" in line for line in lines)


def test_a_missing_library_is_named_with_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "mepol.sb3.library")
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    with pytest.raises(MepolError, match=r"sb3_contrib is missing.*pip install 'mepol\[finetune\]'"):
        importlib.import_module("mepol.sb3.library")


def test_impossible_settings_are_refused():
    with pytest.raises(
        ConfigError, match=r"trpo\.steps = 5000 is not possible: it must be a multiple of the horizon, 7"
    ):
        FinetuneConfig(task="grid-goal1", horizon=7)
    with pytest.raises(ConfigError, match=r"sac\.tau = 2"):
        SacConfig(tau=2)


def test_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ["--horizon", "10", "--trpo.steps", "20", "--hidden", "8", "--threads", "1", "--iterations", "1"]
    assert main(["finetune", "grid-goal2", *small, "--out", "run"]) == 0
    assert "success rate" in capsys.readouterr().out
    assert main(["finetune", "grid-goal2", "--resume", "run", "--iterations", "2"]) == 0
    assert len(RunDirectory.open(tmp_path / "run").rows()) == 3
    assert main(["finetune", "grid-goal2", "--resume", "run"]) == 0  # the task's 100 iterations are not asked for
    assert RunDirectory.open(tmp_path / "run").config.iterations == 2
    assert main(["finetune", "grid-goal1", "--resume", "run"]) == 2
    assert main(["finetune", "grid-goal2", *small, "--out", "run"]) == 1
    assert main(["finetune"]) == 2
    assert main(["finetune", "--help"]) == 0
    assert main(["finetune", "nothing"]) == 2
    assert main(["finetune", "grid-goal1", "--env", "ant"]) == 2
    (tmp_path / "mine.py").write_text("def goal(states):\n    return states[:, 0] > 0\n")
    assert main(["finetune", "mine:goal", "--env", "gridworld", *small]) == 0
    assert RunDirectory.open(tmp_path / "runs" / "mine-goal-trpo-scratch-seed-0").config.env == "mepol/GridWorld-v0"

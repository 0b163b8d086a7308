"""Environments and numbers that go wrong: named in the epoch where it happens, the checkpoint intact."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import toys
from crash import KINDS, Ledger, Nursery, argv_of, assert_same, content

from mepol import GaussianPolicy, collect
from mepol.algorithm import RULES, AscentConfig, CriticConfig
from mepol.errors import CollapseError
from mepol.runs.state import State

LENGTH = 5
LIMIT = 3  # s, of a call of an environment: far more than one takes, on a machine that has other work too
EXPLORERS = ("mepol", "maxent")
LEARNERS = tuple(kind for kind in KINDS if kind not in EXPLORERS)
FOUR = {
    "mepol": ("--max-entropy-drop", "5"),
    "maxent": ("--density-trajectories", "4", "--density-horizon", "24", "--trpo-steps", "96"),
    **dict.fromkeys(
        LEARNERS,
        (
            *("--horizon", "24", "--trpo.steps", "96", "--ppo.steps", "96", "--sac.steps", "96", "--sac.warmup", "96"),
            *("--sac.buffer", "192"),
        ),
    ),
}
"""What makes every batch of a run one of four, with a horizon of 24."""


def toy_argv(kind: str, env: str, out: Path, *more: str) -> list[str]:
    """A tiny run of `kind` in a walk; learners wait in vain for it to go far."""
    plain = ("--paper-rule", "--coinciding", "refuse") if kind == "mepol" else ()  # what the paper's presets do
    more = ("--env-time-limit", str(LIMIT), *FOUR[kind], *plain, *more)
    return argv_of(kind, out, *more, length=LENGTH, env=env, task=("toys:far", "--env", env))


def go_on(kind: str, env: str, run: Path) -> list[str]:
    """The command that resumes it; who learns names the goal again, which is code and not in the run.

    A fault in the random play that looks at an environment comes before there is a run: the same command begins it.
    """
    if not (run / "config.json").exists():
        return toy_argv(kind, env, run)
    named = ["finetune", "toys:far", "--env", env, "--resume"]
    return [*(["resume"] if kind in EXPLORERS else named), str(run)]


Healthy = Callable[[str, str], Path]


@pytest.fixture(scope="module")
def healthy(nursery: Nursery, home: Path) -> Healthy:
    """A run that nothing happened to, of a kind in a walk, made when it is first asked for."""

    def find(kind: str, env: str) -> Path:
        path = home / "healthy" / kind / env
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            ended = nursery.run(toy_argv(kind, env, path))
            assert ended.code == 0, ended.text
        return path

    return find


OF_EXPLORATION = (
    toys.Fault(toys.SINGLE, "hang", 7, "the environment's step 6 took longer than the time limit of LIMIT s", reset=1),
    toys.Fault(toys.SINGLE, "hang", 7, "the environment's step 6 took longer than the time limit of LIMIT s", reset=5),
    toys.Fault(toys.VECTOR, "shrink", 0, "more than max_entropy_drop = 5", reset=3),
)
"""In the random play before the run, and within the run; in the measure of what is learnt."""
OF_LEARNING = (
    toys.Fault(toys.SINGLE, "raise", 5, "the environment's step 4 raised ZeroDivisionError: the whe", reset=2),
    toys.Fault(toys.VECTOR, "nan", 0, "environment 1 returned a NaN or infinite observation at reset", reset=5),
)
"""Where a memory is filled before the first iteration, or in that; between two episodes."""
DOES = {
    "raise": "raises in step or reset",
    "hang": "hangs in step or reset, in training or evaluation",
    "nan": "returns NaN",
    "inf": "returns infinity",
    "shape": "returns the wrong shape",
    "dtype": "returns texts for numbers",
    "complex": "returns complex numbers",
    "object": "returns nothing",
    "ends": "returns too many ends",
    "observation space": "changes its observation space",
    "action space": "changes its action space",
    "shrink": "makes the entropy fall off a cliff",
    "nan reward": "gives NaN for rewards",
    "infinite reward": "gives infinite rewards",
    "end": "ends before the horizon",
}
QUICK = {
    "mepol": ("raise:4:5", "nan:4:24", "shape:4:5", "ends:4:5", "action space:4:5", "shrink:3:0"),
    "maxent": ("nan:4:24",),
    "trpo": ("raise:4:5", "hang:4:5", "action space:4:5"),
    "sac": ("inf:4:0", "raise:2:5", "nan:5:0"),
}
"""What the default suite has the time for, of runs; of tasks it tries all (tests/finetuning/test_contract.py)."""


def chosen(kind: str, faults: Iterable[toys.Fault], quick: Container[str]) -> list[Any]:
    """Parameters (kind, fault), those that are not `quick` for torture alone."""
    return [
        pytest.param(kind, fault, id=f"{kind} {fault}", marks=() if fault.spec() in quick else pytest.mark.torture)
        for fault in faults
    ]


def noted(ledger: Ledger, kind: str, fault: toys.Fault, message: str) -> None:
    phase = "" if kind in EXPLORERS else ", in fine-tuning"
    ledger.note(f"environment {DOES[fault.kind]}{phase}", message)


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        *chosen("mepol", (*toys.FAULTS, *OF_EXPLORATION), QUICK["mepol"]),
        *chosen("maxent", toys.FAULTS, QUICK["maxent"]),
        *(case for k in LEARNERS for case in chosen(k, (*toys.FAULTS, *OF_LEARNING), QUICK.get(k, ()))),
    ],
)
def test_a_fault_ends_the_run_by_name_and_the_run_goes_on_without_it(
    kind: str, fault: toys.Fault, healthy: Healthy, nursery: Nursery, tmp_path: Path, ledger: Ledger
) -> None:
    run = tmp_path / "run"
    ended = nursery.run(toy_argv(kind, fault.env, run), environ={"TOY_FAULT": fault.spec()})
    assert ended.code == 1, ended.text
    assert fault.sentence(LIMIT) in ended.text[ended.text.index("mepol: ") :]
    assert "Traceback" not in ended.text
    noted(ledger, kind, fault, ended.message)
    again = nursery.run(go_on(kind, fault.env, run))
    assert again.code == 0, again.text
    assert_same(run, healthy(kind, fault.env))


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        *chosen("mepol", toys.HARMLESS, ("infinite reward:4:5",)),
        *chosen("trpo", toys.HARMLESS, ("end:4:5",)),
        *chosen("sac", toys.HARMLESS, ()),
    ],
)
def test_an_environments_own_rewards_and_ends_change_nothing(
    kind: str, fault: toys.Fault, healthy: Healthy, nursery: Nursery, tmp_path: Path, ledger: Ledger
) -> None:
    ended = nursery.run(toy_argv(kind, fault.env, tmp_path / "run"), environ={"TOY_FAULT": fault.spec()})
    assert ended.code == 0, ended.text
    assert_same(tmp_path / "run", healthy(kind, fault.env))
    noted(ledger, kind, fault, "none: what it says of rewards and ends is not used")


def test_a_cliff_is_judged_the_same_after_a_resume(nursery: Nursery, tmp_path: Path) -> None:
    run, environ = tmp_path / "run", {"TOY_FAULT": "shrink:3:0"}
    first = nursery.run(toy_argv("mepol", toys.VECTOR, run), environ=environ)
    again = nursery.run(["resume", str(run)], environ={"TOY_FAULT": "shrink:1:0"})
    assert first.code == again.code == 1
    fell = "the entropy fell from"
    assert first.text[first.text.index(fell) :] == again.text[again.text.index(fell) :]


def test_coincident_particles_are_counted(nursery: Nursery, tmp_path: Path, ledger: Ledger) -> None:
    run = tmp_path / "run"
    argv = toy_argv("mepol", toys.VECTOR, run)
    argv[argv.index("--eps") + 1] = "0"
    ended = nursery.run(argv, environ={"TOY_FAULT": "coincide:3:0"})
    assert ended.code == 1
    assert "96 of 96 particles coincide with their k=10 nearest neighbours, the first is particle 0" in ended.text
    ledger.note("particles that coincide", ended.message)
    assert nursery.run(["resume", str(run)]).code == 0
    assert len(content(run)["metrics"]) == LENGTH + 1


@pytest.mark.parametrize("kind", ["mepol", "trpo"])
def test_an_environment_that_cannot_be_made_leaves_nothing(
    kind: str, nursery: Nursery, tmp_path: Path, ledger: Ledger
) -> None:
    ended = nursery.run(toy_argv(kind, toys.SINGLE, tmp_path / "run"), environ={"TOY_FAULT": "construction:0:0"})
    assert ended.code == 1
    assert "the environment's construction as 'toy/Walk-v0' raised OSError: no licence" in ended.text
    assert not (tmp_path / "run").exists()
    ledger.note("environment cannot be made", ended.message)


@pytest.mark.parametrize(
    ("fault", "settings", "message"),
    [
        (
            "learning rate of 1e30: KL not finite",
            ["1e30", "15"],
            "steps stayed in the trust region; the policy is unch",
        ),
        ("weights that collapse", ["0.3", "1e9"], "importance weights are collapsing, effective sample size"),
    ],
)
def test_a_step_that_goes_wrong_is_undone_or_warned_about(
    fault: str, settings: list[str], message: str, nursery: Nursery, tmp_path: Path, ledger: Ledger
) -> None:
    argv = toy_argv("mepol", toys.VECTOR, tmp_path / "run", "--kl-threshold", settings[1])
    argv[argv.index("--learning-rate") + 1] = settings[0]
    argv[argv.index("--max-steps") + 1] = "20"
    ended = nursery.run(argv)
    assert ended.code == 0, ended.text
    assert "mepol: warning: epoch" in ended.text
    assert message in ended.text
    warned = ended.text[ended.text.index("epoch", ended.text.index("mepol: warning:")) :]
    ledger.note(fault, "warning: " + warned[: warned.index("lower learning_rate") + len("lower learning_rate")])
    rows = content(tmp_path / "run")["metrics"]
    assert all(row["ess"] and np.isfinite(float(row["ess"])) for row in rows[:-1])


def test_a_policy_without_numbers_is_named() -> None:
    class Lost:
        def act(self, obs: np.ndarray, rng: np.random.Generator, deterministic: bool = False) -> np.ndarray:
            return np.array([[0.0, 0.0], [0.0, np.nan], [0.0, 0.0]], dtype=np.float32)

    with pytest.raises(CollapseError, match="gave environment 1 a NaN or infinite action at step 0"):
        collect(Lost(), toys.Walks(3), 5, seed=np.random.SeedSequence(0))


def test_a_state_that_could_not_be_read_again_is_never_written() -> None:
    policy = GaussianPolicy(2, 2, (4,))
    ascent = RULES["importance"].make(policy, AscentConfig(), CriticConfig(), 2, np.random.default_rng(0))
    optimiser = ascent.optimisers["ascent"]
    policy.log_prob(torch.ones(1, 2), torch.ones(1, 2)).sum().backward()
    optimiser.step()
    optimiser.state[policy.log_std]["exp_avg_sq"].fill_(torch.inf)
    with pytest.raises(CollapseError, match="NaN or infinite before epoch 3; lower the learning rate"):
        State(ascent.modules, ascent.optimisers).tensors("epoch 3")

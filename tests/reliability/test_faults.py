"""Environments and numbers that go wrong: named in the epoch where it happens, the checkpoint intact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import toys
from crash import Ledger, Nursery, assert_same, content, explore_argv

from mepol import GaussianPolicy, collect
from mepol.algorithm import RULES, AscentConfig, CriticConfig
from mepol.errors import CollapseError
from mepol.runs.state import State

EPOCHS = 5


@pytest.fixture(scope="module")
def healthy(nursery: Nursery, home: Path) -> dict[str, Path]:
    """Walks that nothing happened to, as single and as vector environments."""
    folder = home / "healthy"
    folder.mkdir()
    for i, env in enumerate((toys.SINGLE, toys.VECTOR)):
        ended = nursery.run(toy_argv(env, folder / str(i)))
        assert ended.code == 0, ended.text
    return {toys.SINGLE: folder / "0", toys.VECTOR: folder / "1"}


def toy_argv(env: str, out: Path, *more: str) -> list[str]:
    argv = explore_argv(out, "--env-time-limit", "1", *more, env=env, epochs=EPOCHS)
    argv[argv.index("--max-entropy-drop") + 1] = "5"
    return argv


FAULTS = [
    (toys.SINGLE, "raise:3:5", "the environment's step 4 raised ZeroDivisionError: the wheel came off"),
    (toys.SINGLE, "raise:4:0", "the environment's reset raised ZeroDivisionError: the wheel came off"),
    (toys.SINGLE, "hang:3:5", "the environment's step 4 took longer than the time limit of 1 s"),
    (toys.SINGLE, "hang:2:0", "the environment's reset took longer than the time limit of 1 s"),
    (toys.SINGLE, "hang:1:7", "the environment's step 6 took longer than the time limit of 1 s"),  # in an evaluation
    (toys.SINGLE, "nan:3:5", "environment 0 returned a NaN or infinite observation at step 4"),
    (toys.SINGLE, "inf:3:0", "environment 0 returned a NaN or infinite observation at reset"),
    (toys.SINGLE, "shape:3:5", "the step of Walk returned an observation of shape (3,)"),
    (toys.SINGLE, "dtype:3:5", "the environment's step 4 raised"),
    (toys.VECTOR, "nan:3:24", "environment 1 returned a NaN or infinite observation at step 23"),
    (toys.VECTOR, "inf:3:5", "environment 2 returned a NaN or infinite observation at step 4"),
    (toys.VECTOR, "shape:3:5", "the environment's step 4 returned observations (4, 1) float64, not (4, 2)"),
    (toys.VECTOR, "dtype:3:5", "the environment's step 4 returned observations (4, 2) <U32, not (4, 2) real numbers"),
    (toys.VECTOR, "complex:3:5", "returned observations (4, 2) complex128"),
    (toys.VECTOR, "object:3:5", "returned observations () object"),
    (toys.VECTOR, "ends:3:5", "the environment's step 4 returned ends (5,), not (4,) truth values"),
    (toys.VECTOR, "observation space:3:5", "the environment changed its observation space to Box(-1.0, 1.0, (2,)"),
    (toys.VECTOR, "action space:3:5", "the environment changed its action space to Box(-1.0, 1.0, (5,)"),
    (toys.VECTOR, "shrink:3:0", "more than max_entropy_drop = 5"),
]


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
}


QUICK = ("raise:3:5", "hang:2:0", "inf:3:0", "nan:3:24", "shape:3:5", "ends:3:5", "action space:3:5", "shrink:3:0")
CHOSEN = [c if c[1] in QUICK else pytest.param(*c, marks=pytest.mark.torture) for c in FAULTS]


@pytest.mark.parametrize(("env", "fault", "message"), CHOSEN)
def test_a_fault_ends_the_run_by_name_and_the_run_goes_on_without_it(
    env: str, fault: str, message: str, healthy: dict[str, Path], nursery: Nursery, tmp_path: Path, ledger: Ledger
) -> None:
    run = tmp_path / "run"
    ended = nursery.run(toy_argv(env, run), environ={"TOY_FAULT": fault})
    assert ended.code == 1, ended.text
    assert f"mepol: {message}" in ended.text or message in ended.text[ended.text.index("mepol: ") :]
    assert "Traceback" not in ended.text
    ledger.note(f"environment {DOES[fault.split(':')[0]]}", ended.message)
    assert nursery.run(["resume", str(run)]).code == 0
    assert_same(run, healthy[env])


def test_a_cliff_is_judged_the_same_after_a_resume(nursery: Nursery, tmp_path: Path) -> None:
    run, environ = tmp_path / "run", {"TOY_FAULT": "shrink:3:0"}
    first = nursery.run(toy_argv(toys.VECTOR, run), environ=environ)
    again = nursery.run(["resume", str(run)], environ={"TOY_FAULT": "shrink:1:0"})
    assert first.code == again.code == 1
    fell = "the entropy fell from"
    assert first.text[first.text.index(fell) :] == again.text[again.text.index(fell) :]


def test_coincident_particles_are_counted(
    healthy: dict[str, Path], nursery: Nursery, tmp_path: Path, ledger: Ledger
) -> None:
    run = tmp_path / "run"
    argv = toy_argv(toys.VECTOR, run)
    argv[argv.index("--eps") + 1] = "0"
    ended = nursery.run(argv, environ={"TOY_FAULT": "coincide:3:0"})
    assert ended.code == 1
    assert "96 of 96 particles coincide with their k=10 nearest neighbours, the first is particle 0" in ended.text
    ledger.note("particles that coincide", ended.message)
    assert nursery.run(["resume", str(run)]).code == 0
    assert len(content(run)["metrics"]) == EPOCHS + 1


@pytest.mark.parametrize(
    ("env", "kind"),
    [
        (toys.VECTOR, "nan reward"),
        (toys.SINGLE, "infinite reward"),
        pytest.param(toys.SINGLE, "nan reward", marks=pytest.mark.torture),
        pytest.param(toys.VECTOR, "infinite reward", marks=pytest.mark.torture),
    ],
)
def test_rewards_are_never_read(
    env: str, kind: str, healthy: dict[str, Path], nursery: Nursery, tmp_path: Path, ledger: Ledger
) -> None:
    assert nursery.run(toy_argv(env, tmp_path / "run"), environ={"TOY_FAULT": f"{kind}:3:5"}).code == 0
    assert_same(tmp_path / "run", healthy[env])
    ledger.note(f"environment gives {kind}s", "none: exploration never reads rewards")


def test_an_environment_that_cannot_be_made_leaves_nothing(nursery: Nursery, tmp_path: Path, ledger: Ledger) -> None:
    ended = nursery.run(toy_argv(toys.SINGLE, tmp_path / "run"), environ={"TOY_FAULT": "construction:0:0"})
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
    argv = toy_argv(toys.VECTOR, tmp_path / "run", "--kl-threshold", settings[1])
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

"""The paper's settings for its seven tasks as one table of name, value and source.

"TRPO table" and "SAC table" are the two of the appendix "Goal-Based Reinforcement Learning".
"""

from __future__ import annotations

from mepol.finetuning.config import FinetuneConfig
from mepol.finetuning.tasks import TASKS, find_task
from mepol.settings import Row, Rows, built, with_settings

_SPINNING_UP = "Spinning Up's default (the paper used that library and does not say)"
_TRPO = "paper, TRPO table"
_SAC = "paper, SAC table"
_RELEASED = "the codebase that the paper used"
_COMMON = (
    Row("stop_return", None, "ours: off; the paper runs every iteration"),
    Row("stop_after", 10, "ours"),
    Row("trpo.discount", 0.99, _TRPO),
    Row("trpo.gae_lambda", 0.97, _SPINNING_UP),
    Row("trpo.cg_steps", 10, _SPINNING_UP),
    Row("trpo.cg_damping", 0.1, _SPINNING_UP),
    Row("trpo.fisher_every", 10, "ours: a tenth of the states, as the TRPO paper's appendix C"),
    Row("trpo.backtrack", 0.8, _SPINNING_UP),
    Row("trpo.max_backtracks", 10, _SPINNING_UP),
    Row("trpo.value_target", "reward-to-go", _SPINNING_UP),
    Row("trpo.value_rate", 1e-3, _SPINNING_UP),
    Row(
        "trpo.value_passes",
        10,
        "ours: with the minibatches 80 Adam steps, Spinning Up's number, at an eighth of the cost",
    ),
    Row("trpo.value_minibatches", 8, "ours: see value_passes"),
    Row("ppo.value_target", "reward-to-go", "ours: TRPO's"),
    Row("sac.learning_rate", 3e-4, _SAC),
    Row("sac.discount", 0.99, _SAC),
    Row("sac.batch", 256, _SAC),
    Row("sac.buffer", 1_000_000, _SAC),
    Row("sac.tau", 0.005, f"{_RELEASED} (oac-explore)"),
    Row("sac.warmup", 10_000, f"{_RELEASED} (oac-explore)"),
    Row("intrinsic.extrinsic_weight", 1.0, "paper: equal weights"),
    Row("intrinsic.intrinsic_weight", 1.0, "paper: equal weights"),
    Row("intrinsic.skills", 4, "paper"),
    Row("intrinsic.skill_sign", "paper", "the SMM paper's sign (docs/method/finetune.md)"),
    Row("intrinsic.count_scale", 1.0, f"{_RELEASED} (state-marginal-matching)"),
)


_GRID, _BODY = ((300, 300), -1.5), ((400, 300), -0.5)  # widths and ln of the deviation, as the presets of exploration
# iterations, TRPO steps, TRPO KL, SAC updates, policy
_TABLES = {
    "grid-goal1": (100, 12_000, 1e-4, 12_000, _GRID),
    "grid-goal2": (100, 12_000, 1e-4, 12_000, _GRID),
    "grid-goal3": (100, 12_000, 1e-4, 12_000, _GRID),
    "ant-escape": (500, 5000, 1e-2, 5000, _BODY),
    "ant-jump": (1000, 50_000, 1e-2, 5000, _BODY),
    "ant-navigate": (1000, 50_000, 1e-2, 5000, _BODY),
    "humanoid-up": (2000, 20_000, 1e-2, 6000, _BODY),
}


def task_rows(task: str) -> Rows:
    """What the two tables say of a task, the policy that explored, and what every task has."""
    iterations, steps, kl, updates, (hidden, log_std) = _TABLES[task]
    return (
        Row("iterations", iterations, "paper, TRPO and SAC tables (they agree)"),
        Row("horizon", TASKS[task].horizon, _TRPO),
        Row("hidden", hidden, "paper: the same policies as in exploration"),
        Row("log_std", log_std, "as in exploration"),
        Row("trpo.steps", steps, _TRPO),
        Row("trpo.kl", kl, _TRPO),
        Row("ppo.steps", steps, "ours: TRPO's; the paper has no PPO"),
        Row("sac.steps", updates, "ours: as many as updates; the paper does not say"),
        Row("sac.updates", updates, _SAC),
        *_COMMON,
    )


def default_config(
    task: str, env: str = "", *, horizon: int = 500, hidden: tuple[int, ...] = (400, 300), log_std: float = -0.5
) -> FinetuneConfig:
    """The paper's settings of a task; for a goal of one's own, or the own reward of `env`, those of its exploration.

    horizon, hidden, log_std: of that exploration. Such a task has ten episodes per iteration for every learner.
    """
    if ":" not in task and not env:
        find_task(task)
        return built(FinetuneConfig(task=task), task_rows(task))
    steps = 10 * horizon
    return with_settings(
        FinetuneConfig(task=task, env=env),
        {"horizon": horizon, "hidden": hidden, "log_std": log_std, "sac.updates": steps}
        | dict.fromkeys(("trpo.steps", "ppo.steps", "sac.steps"), steps),
    )

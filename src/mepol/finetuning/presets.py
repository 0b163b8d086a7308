"""The paper's settings for its seven tasks, each value with where it comes from.

"TRPO table" and "SAC table" are the two of the appendix "Goal-Based Reinforcement Learning".
"""

from __future__ import annotations

import gymnasium

from mepol.errors import ConfigError
from mepol.exploration.presets import PRESETS
from mepol.finetuning.config import FinetuneConfig, PpoConfig, SacConfig, TrpoConfig
from mepol.finetuning.tasks import TASKS, find_task

# iterations, TRPO steps, TRPO KL, SAC updates: paper, TRPO and SAC tables
_TABLES = {
    "grid-goal1": (100, 12_000, 1e-4, 12_000),
    "grid-goal2": (100, 12_000, 1e-4, 12_000),
    "grid-goal3": (100, 12_000, 1e-4, 12_000),
    "ant-escape": (500, 5000, 1e-2, 5000),
    "ant-jump": (1000, 50_000, 1e-2, 5000),
    "ant-navigate": (1000, 50_000, 1e-2, 5000),
    "humanoid-up": (2000, 20_000, 1e-2, 6000),
}

_SPINNING_UP = "Spinning Up's default (the paper used that library and does not say)"
SOURCES = {
    "iterations": "paper, TRPO and SAC tables (they agree)",
    "stop_return": "ours: off; the paper runs every iteration",
    "stop_after": "ours",
    "horizon": "paper, TRPO table",
    "hidden": "paper: the same policies as in exploration",
    "log_std": "as in exploration",
    "trpo.steps": "paper, TRPO table",
    "trpo.kl": "paper, TRPO table",
    "trpo.discount": "paper, TRPO table",
    "trpo.gae_lambda": _SPINNING_UP,
    "trpo.cg_steps": _SPINNING_UP,
    "trpo.cg_damping": _SPINNING_UP,
    "trpo.fisher_every": "ours: a tenth of the states, as the TRPO paper's appendix C",
    "trpo.backtrack": _SPINNING_UP,
    "trpo.max_backtracks": _SPINNING_UP,
    "trpo.value_target": _SPINNING_UP,
    "trpo.value_rate": _SPINNING_UP,
    "trpo.value_passes": "ours: with the minibatches 80 Adam steps, Spinning Up's number, at an eighth of the cost",
    "trpo.value_minibatches": "ours: see value_passes",
    "ppo.steps": "ours: TRPO's; the paper has no PPO",
    "ppo.value_target": "ours: TRPO's",
    "sac.steps": "ours: as many as updates; the paper does not say",
    "sac.updates": "paper, SAC table",
    "sac.learning_rate": "paper, SAC table",
    "sac.discount": "paper, SAC table",
    "sac.batch": "paper, SAC table",
    "sac.buffer": "paper, SAC table",
    "sac.tau": "the codebase that the paper used (oac-explore)",
    "sac.warmup": "the codebase that the paper used (oac-explore)",
    "intrinsic.extrinsic_weight": "paper: equal weights",
    "intrinsic.intrinsic_weight": "paper: equal weights",
    "intrinsic.skills": "paper",
    "intrinsic.skill_sign": "the SMM paper's sign (docs/finetune.md)",
    "intrinsic.count_scale": "the codebase that the paper used (state-marginal-matching)",
}


def default_config(task: str, env: str = "") -> FinetuneConfig:
    """The paper's settings of a task; for a goal of one's own those of its domain's exploration preset."""
    if ":" not in task:
        find_task(task)
        iterations, steps, kl, updates = _TABLES[task]
        explorer = PRESETS[TASKS[task].explorer].config.policy
        return FinetuneConfig(
            task=task,
            iterations=iterations,
            horizon=TASKS[task].horizon,
            hidden=explorer.hidden,
            log_std=explorer.log_std,
            trpo=TrpoConfig(steps=steps, kl=kl),
            ppo=PpoConfig(steps=steps),
            sac=SacConfig(steps=updates, updates=updates),
        )
    if env in PRESETS:
        explored = PRESETS[env].config
        steps = 10 * explored.horizon  # ten episodes an iteration for every learner
        return FinetuneConfig(
            task=task,
            env=explored.env,
            horizon=explored.horizon,
            hidden=explored.policy.hidden,
            log_std=explored.policy.log_std,
            trpo=TrpoConfig(steps=steps),
            ppo=PpoConfig(steps=steps),
            sac=SacConfig(steps=steps, updates=steps),
        )
    if env and env not in gymnasium.registry:
        raise ConfigError(f"no exploration preset or environment called {env!r}; presets: {', '.join(PRESETS)}")
    return FinetuneConfig(task=task, env=env)

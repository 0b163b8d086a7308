"""SMM (Lee et al. 2019): state-marginal matching with a few skills z, one drawn for each episode.

    bonus = -ln p(s, z) + ln(skills) + ln q(z | s)

p is a VAE over [s, z], q a classifier of the skill. The first term pays for states that are rare, the last for states
that tell the skills apart. (The released code adds -ln q, which pays for confusable skills: `sign="release"`.)

The observation is [s, one-hot z]; `SkillVectorEnv` appends the skill. Both models take one step on each batch
that SAC draws. Sizes and rates are the released code's: VAE at 0.01, classifier 300-300 at 1e-3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from torch import Tensor, nn

from mepol.envs.batched import Array
from mepol.finetuning.intrinsic.vae import LEARNING_RATE, Vae, sampled
from mepol.rewards.reward import IntrinsicReward, Transitions


class Smm(IntrinsicReward):
    """state_dim: S without the skill. Observations are (B, S + skills)."""

    def __init__(self, state_dim: int, skills: int = 4, sign: Literal["paper", "release"] = "paper") -> None:
        super().__init__()
        self.state_dim, self.skills, self.sign = state_dim, skills, 1.0 if sign == "paper" else -1.0
        self.density = Vae(state_dim + skills)
        self.classifier = nn.Sequential(
            nn.Linear(state_dim, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, skills)
        )
        self._density_optimiser = torch.optim.Adam(self.density.parameters(), lr=LEARNING_RATE)
        self._classifier_optimiser = torch.optim.Adam(self.classifier.parameters(), lr=1e-3)

    @torch.no_grad()
    def reward(self, transitions: Transitions) -> Tensor:
        """(B,) nats, up to the density's constant, of the state that each transition starts from."""
        rare = -self.density.log_density(transitions.obs, sampled(transitions.obs))
        return rare + math.log(self.skills) - self.sign * self._cross_entropy(transitions.obs)

    def update(self, transitions: Transitions) -> None:
        """One step of the density, one of the classifier."""
        obs = transitions.obs
        for optimiser, loss in (
            (self._density_optimiser, self.density.loss(obs, sampled(obs))),
            (self._classifier_optimiser, self._cross_entropy(obs).mean()),
        ):
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """Name -> optimiser."""
        return {"density": self._density_optimiser, "classifier": self._classifier_optimiser}

    def _cross_entropy(self, obs: Tensor) -> Tensor:
        """(B,) -ln q(z | s) of each row's own skill."""
        states, skill = obs[:, : self.state_dim], obs[:, self.state_dim :].argmax(1)
        return nn.functional.cross_entropy(self.classifier(states), skill, reduction="none")


class SkillVectorEnv(VectorWrapper[Array, Array, Array, Array, Array]):
    """Appends the one-hot skill of each episode to its states; a skill is drawn uniformly at every start."""

    def __init__(self, env: VectorEnv[Any, Any, Any], skills: int) -> None:
        super().__init__(env)
        space = env.single_observation_space
        assert isinstance(space, Box)
        self.skills = skills
        low, high = np.append(space.low, np.zeros(skills)), np.append(space.high, np.ones(skills))
        self.single_observation_space = Box(low, high, dtype=np.float64)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self._rng = np.random.default_rng()
        self._skill = np.zeros(env.num_envs, dtype=np.int64)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start anew with new skills, or only those of the `reset_mask`."""
        if seed is not None:
            numbers = [seed] if isinstance(seed, int) else [s or 0 for s in seed]
            self._rng = np.random.default_rng(numbers)
        states, info = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, dtype=bool))
        self._skill = np.where(mask, self._rng.integers(self.skills, size=self.num_envs), self._skill)
        return self._with_skill(states), info

    def step(self, actions: Array) -> Any:
        """Step; the skills stay."""
        states, *rest = self.env.step(actions)
        return self._with_skill(states), *rest

    def _with_skill(self, states: Array) -> Array:
        return np.concatenate([states, np.eye(self.skills)[self._skill]], axis=1)

"""sb3-contrib's TRPO, its Fisher products taken on part of the batch.

The library differentiates the mean KL of the whole batch twice for every conjugate-gradient step, which is most of the
time of an iteration. The direction hardly depends on it: the TRPO paper (appendix C) takes a tenth of the states.
The line search, which enforces the trust region, still sees every state. With `fisher_every` = 1 the step is
the library's (tests/sb3/test_trpo.py).
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from mepol.sb3.adapter import BatchedVecEnv
from mepol.sb3.library import TRPO, kl_divergence
from mepol.sb3.settings import TrpoSettings


class SparseFisherTRPO(TRPO):
    """TRPO whose curvature is that of every `fisher_every`-th state of the batch."""

    def __init__(self, *arguments: Any, fisher_every: int, **settings: Any) -> None:
        self.fisher_every = fisher_every
        super().__init__(*arguments, **settings)

    def _compute_actor_grad(
        self, kl_div: Tensor, policy_objective: Tensor
    ) -> tuple[list[nn.Parameter], Tensor, Tensor, list[tuple[int, ...]]]:
        """Actor's parameters, gradients of objective and KL as vectors, and the parameters' shapes.

        kl_div: the library's KL of the whole batch; not used, another is made of fewer states.
        """
        actor = [p for name, p in self.policy.named_parameters() if "value" not in name]
        states = torch.from_numpy(self.rollout_buffer.observations[:: self.fisher_every])  # flat since it was read
        with torch.no_grad():
            old = copy.copy(self.policy.get_distribution(states))
        kl = kl_divergence(self.policy.get_distribution(states), old).mean()
        uphill = torch.autograd.grad(policy_objective, actor)
        curvature = torch.autograd.grad(kl, actor, create_graph=True)
        return actor, _flat(uphill), _flat(curvature), [tuple(p.shape) for p in actor]


def make_trpo(env: BatchedVecEnv, settings: TrpoSettings, networks: dict[str, Any]) -> SparseFisherTRPO:
    """TRPO in `env`. Draws initial weights from the global generators.

    networks: `policy_kwargs`, as `architecture` gives them.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an uneven last minibatch is fine
        return SparseFisherTRPO(
            "MlpPolicy",
            env,
            n_steps=settings.steps,
            batch_size=settings.value_batch,
            learning_rate=settings.value_rate,
            gamma=settings.discount,
            gae_lambda=settings.gae_lambda,
            cg_max_steps=settings.cg_steps,
            cg_damping=settings.cg_damping,
            line_search_shrinking_factor=settings.backtrack,
            line_search_max_iter=settings.max_backtracks,
            n_critic_updates=settings.value_passes,
            target_kl=settings.kl,
            fisher_every=settings.fisher_every,
            policy_kwargs=networks,
            device="cpu",
        )


def _flat(gradients: tuple[Tensor, ...]) -> Tensor:
    return torch.cat([g.reshape(-1) for g in gradients])

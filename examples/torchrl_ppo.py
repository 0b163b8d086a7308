"""TorchRL's PPO whose actor is an exploration policy of mepol: the policy is a torch module, and stays one.

Needs `pip install torchrl`. What TorchRL has learnt is in the policy itself, so that mepol can go on with it.

python examples/torchrl_ppo.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import gymnasium
import torch
from tensordict import TensorDict
from tensordict.nn import InteractionType, TensorDictModule
from torch import Tensor, nn
from torchrl.envs import DoubleToFloat, GymWrapper, TransformedEnv
from torchrl.modules import IndependentNormal, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import mepol

STEPS, PASSES, MINIBATCH, RATE = 2400, 4, 300, 3e-4


class Parameters(nn.Module):
    """What TorchRL's distribution is told: mean and deviation of the policy's actions."""

    def __init__(self, policy: mepol.GaussianPolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """(..., S) observations -> two tensors (..., A)."""
        mean = self.policy.mean(obs)
        return mean, self.policy.log_std.exp().expand_as(mean)


def actor_of(policy: mepol.GaussianPolicy) -> ProbabilisticActor:
    """`policy` as TorchRL's actor; it shares the policy's weights."""
    return ProbabilisticActor(
        TensorDictModule(Parameters(policy), in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=IndependentNormal,
        default_interaction_type=InteractionType.RANDOM,  # an explorer's mean alone goes nowhere
        return_log_prob=True,
    )


def main(policy: mepol.GaussianPolicy, iterations: int = 10, steps: int = STEPS, seed: int = 0) -> list[float]:
    """Learn to reach GridWorld's first goal, in place; returns the mean reward per step of each iteration."""
    torch.manual_seed(seed)
    env = TransformedEnv(GymWrapper(gymnasium.make("mepol/GridGoal1-v0")), DoubleToFloat())
    env.set_seed(seed)
    actor = actor_of(policy)
    value = nn.Sequential(nn.Linear(policy.widths[0], 64), nn.Tanh(), nn.Linear(64, 1))
    critic = ValueOperator(value, in_keys=["observation"])
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    loss = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_bonus=False)
    optimiser = torch.optim.Adam(loss.parameters(), lr=RATE)
    earned = []
    for iteration in range(iterations):
        with torch.no_grad():
            batch: TensorDict = env.rollout(steps, actor, break_when_any_done=False)
            advantage(batch)
        for _ in range(PASSES):
            for rows in torch.randperm(steps).split(MINIBATCH):
                losses = loss(batch[rows])
                optimiser.zero_grad()
                (losses["loss_objective"] + losses["loss_critic"]).backward()
                optimiser.step()
        earned.append(batch["next", "reward"].mean().item())
        print(f"iteration {iteration:2d}   reward per step {earned[-1]:.4f}")
    env.close()
    return earned


if __name__ == "__main__":
    place = Path(tempfile.mkdtemp(prefix="mepol-example-"))
    run = mepol.explore("gridworld", fast=True, epochs=10, out=place / "run")
    learnt = run.policy
    main(learnt)
    mepol.save_policy(learnt, place / "learnt.safetensors")
    print(f"mepol finetune grid-goal1 --init {place / 'learnt.safetensors'}")

"""One file of plain torch, in CleanRL's manner: PPO whose actor begins as an exploration policy of mepol.

The actor has the layers `net`, `mean` and `log_std`. Its weights come out of the policy by their names, and go back in
as a plain state dict, which mepol reads wherever it takes a policy file: `mepol finetune TASK --init actor.pt`.

python examples/plain_torch_ppo.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

import mepol

ENVS, STEPS, PASSES, MINIBATCHES = 8, 128, 4, 4
GAMMA, LAMBDA, CLIP, RATE = 0.99, 0.95, 0.2, 3e-4


class Actor(nn.Module):
    """A Gaussian with its own input scaling, as the exploration had it."""

    def __init__(self, policy: mepol.GaussianPolicy) -> None:
        super().__init__()
        *hidden, last = policy.layers
        self.net = nn.Sequential(*(module for layer in hidden for module in (_copy(layer), nn.ReLU())))
        self.mean, self.log_std = _copy(last), nn.Parameter(policy.log_std.detach().clone())
        self.register_buffer("shift", policy.shift.clone())
        self.register_buffer("scale", policy.scale.clone())

    def forward(self, obs: Tensor) -> Normal:
        """(..., S) observations -> the distribution of (..., A) actions."""
        return Normal(self.mean(self.net((obs - self.shift) / self.scale)), self.log_std.exp())


def _copy(layer: nn.Linear) -> nn.Linear:
    new = nn.Linear(layer.in_features, layer.out_features)
    new.load_state_dict(layer.state_dict())
    return new


def main(policy: mepol.GaussianPolicy | None = None, iterations: int = 10, seed: int = 0) -> tuple[Actor, list[float]]:
    """Learn to reach GridWorld's first goal; returns the actor and the share of solved episodes of each iteration."""
    torch.manual_seed(seed)
    envs = gymnasium.make_vec("mepol/GridGoal1-v0", ENVS)
    state_dim, action_dim = envs.single_observation_space.shape[0], envs.single_action_space.shape[0]
    actor = Actor(mepol.GaussianPolicy(state_dim, action_dim, (64, 64)) if policy is None else policy)
    critic = nn.Sequential(nn.Linear(state_dim, 64), nn.Tanh(), nn.Linear(64, 1))
    optimiser = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=RATE)
    obs, _ = envs.reset(seed=seed)
    obs, solved = _tensor(obs), []
    for iteration in range(iterations):
        seen, ends = [], []
        for _ in range(STEPS):
            with torch.no_grad():
                chosen = actor(obs)
                action = chosen.sample()
                log_prob, value = chosen.log_prob(action).sum(-1), critic(obs).squeeze(-1)
            after, reward, terminated, truncated, _ = envs.step(action.numpy())
            done = terminated | truncated
            seen.append((obs, action, log_prob, value, _tensor(reward), _tensor(done)))
            ends += terminated[done].tolist()
            if done.any():
                starts, _ = envs.reset(options={"reset_mask": done})
                after = np.where(done[:, None], starts, after)
            obs = _tensor(after)
        states, actions, log_probs, values, rewards, dones = (torch.stack(part) for part in zip(*seen, strict=True))
        advantages = _advantages(rewards, values, dones, critic(obs).squeeze(-1).detach())
        returns = advantages + values
        for _ in range(PASSES):
            for rows in torch.randperm(STEPS * ENVS).chunk(MINIBATCHES):
                flat = [x.flatten(0, 1)[rows] for x in (states, actions, log_probs, advantages, returns)]
                loss = _loss(actor, critic, *flat)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        solved.append(float(np.mean(ends)) if ends else 0.0)
        print(f"iteration {iteration:2d}   episodes {len(ends):3d}   solved {solved[-1]:.2f}")
    envs.close()
    return actor, solved


def _advantages(rewards: Tensor, values: Tensor, dones: Tensor, last: Tensor) -> Tensor:
    """(T, M) generalised advantages."""
    found, ahead, following = torch.zeros_like(rewards), torch.zeros_like(last), last
    for t in reversed(range(len(rewards))):
        alive = 1 - dones[t]
        ahead = rewards[t] + GAMMA * alive * following - values[t] + GAMMA * LAMBDA * alive * ahead
        found[t], following = ahead, values[t]
    return found


def _loss(
    actor: Actor, critic: nn.Module, states: Tensor, actions: Tensor, before: Tensor, advantages: Tensor, to_go: Tensor
) -> Tensor:
    ratio = (actor(states).log_prob(actions).sum(-1) - before).exp()
    scaled = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    gain = torch.minimum(ratio * scaled, ratio.clamp(1 - CLIP, 1 + CLIP) * scaled)
    return -gain.mean() + 0.5 * (critic(states).squeeze(-1) - to_go).square().mean()


def _tensor(array: object) -> Tensor:
    return torch.as_tensor(np.asarray(array), dtype=torch.float32)


if __name__ == "__main__":
    place = Path(tempfile.mkdtemp(prefix="mepol-example-"))
    run = mepol.explore("gridworld", fast=True, epochs=10, out=place / "run")
    learnt, _ = main(run.policy)
    torch.save(learnt.state_dict(), place / "actor.pt")
    print(f"mepol finetune grid-goal1 --init {place / 'actor.pt'}")

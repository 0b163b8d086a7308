"""How an exploration policy becomes the start of a learner.

TRPO and PPO: exactly. Their Gaussian actor has the same ReLU layers and a state-independent log-std, so the
weights are copied, and the input's shift and scale are folded into the first layer:

    W ((s - shift) / scale) + b  =  (W / scale) s + (b - W (shift / scale))

SAC: through its replay buffer. A tanh-squashed actor whose spread depends on the state cannot equal a clipped
Gaussian, and cloning would keep the mean but change the noise that covers the states. So the warm-up is played by
the exploration policy instead of the untrained actor, and what it reached is what SAC first learns from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from mepol.errors import PolicyFileError
from mepol.finetune.adapter import BatchedVecEnv
from mepol.policy import GaussianPolicy


def architecture(hidden: tuple[int, ...]) -> dict[str, Any]:
    """`policy_kwargs` that give Stable-Baselines3's actor the layers of a GaussianPolicy, and its critic the same."""
    layers = list(hidden)
    return {"net_arch": {"pi": layers, "vf": layers}, "activation_fn": nn.ReLU, "ortho_init": False}


def check_fit(policy: GaussianPolicy, state_dim: int, action_dim: int, task: str) -> None:
    """PolicyFileError unless `policy` maps the task's states to its actions."""
    if (policy.widths[0], policy.widths[-1]) != (state_dim, action_dim):
        raise PolicyFileError(
            f"the policy maps {policy.widths[0]} state coordinates to {policy.widths[-1]} actions, "
            f"and {task} has {state_dim} and {action_dim}: it was made for another environment"
        )


@torch.no_grad()
def write_actor(actor: ActorCriticPolicy, policy: GaussianPolicy) -> None:
    """Make `actor` draw the same actions as `policy`; its value function is left alone."""
    for target, (weight, bias) in zip(_actor_layers(actor), _folded(policy), strict=True):
        target.weight.copy_(weight)
        target.bias.copy_(bias)
    assert isinstance(actor.log_std, Tensor)
    actor.log_std.copy_(policy.log_std)


@torch.no_grad()
def read_actor(actor: ActorCriticPolicy) -> GaussianPolicy:
    """The actor as a GaussianPolicy, for everything else in this package (saving, filming, measuring)."""
    layers = _actor_layers(actor)
    policy = GaussianPolicy(
        layers[0].in_features, layers[-1].out_features, tuple(layer.out_features for layer in layers[:-1])
    )
    for target, source in zip(policy.layers, layers, strict=True):
        target.load_state_dict(source.state_dict())
    assert isinstance(actor.log_std, Tensor)
    policy.log_std.copy_(actor.log_std)
    return policy


def _actor_layers(actor: ActorCriticPolicy) -> list[nn.Linear]:
    modules = [*actor.mlp_extractor.policy_net, actor.action_net]
    return [module for module in modules if isinstance(module, nn.Linear)]


def _folded(policy: GaussianPolicy) -> list[tuple[Tensor, Tensor]]:
    """Weights and biases of `policy` as it sees raw states, computed in float64."""
    layers = [layer for layer in policy.layers if isinstance(layer, nn.Linear)]
    pairs = [(layer.weight.double(), layer.bias.double()) for layer in layers]
    shift, scale = policy.shift.double(), policy.scale.double()
    weight, bias = pairs[0]
    return [(weight / scale, bias - weight @ (shift / scale)), *pairs[1:]]


def fill_replay(
    replay: ReplayBuffer, env: BatchedVecEnv, policy: GaussianPolicy, steps: int, *, seed: np.random.SeedSequence
) -> None:
    """Play `policy` for `steps` steps of each of the M sub-environments into `replay`.

    Actions are clipped to the action space and stored in [-1, 1], as SAC stores its own. A policy that knows fewer
    state coordinates than the environment shows is given the first ones (SMM appends its skill).
    """
    reset_seed, noise_seed = seed.spawn(2)
    rng = np.random.default_rng(noise_seed)
    low, high = env.action_space.low, env.action_space.high  # type: ignore[attr-defined]
    obs = env.restart(reset_seed.generate_state(env.num_envs).tolist())
    for _ in range(steps):
        actions = np.clip(policy.act(obs[:, : policy.widths[0]], rng), low, high)
        env.step_async(actions)
        after, rewards, done, infos = env.step_wait()
        seen = after.copy()
        for i in np.flatnonzero(done):
            seen[i] = infos[i]["terminal_observation"]
        replay.add(obs, seen, 2 * (actions - low) / (high - low) - 1, rewards, done, infos)
        obs = after

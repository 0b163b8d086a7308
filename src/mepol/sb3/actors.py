"""Policies between this package and Stable-Baselines3: ours as a learner's start, a learner's as one of ours.

TRPO and PPO: exactly. Their Gaussian actor has the same ReLU layers and a state-independent log-std, their categorical
one the same logits side by side, so the weights are copied, and the input's shift and scale are folded into the first
layer:

    W ((s - shift) / scale) + b  =  (W / scale) s + (b - W (shift / scale))

SAC: through its replay buffer. A tanh-squashed actor whose spread depends on the state cannot equal a clipped
Gaussian, and cloning would keep the mean but change the noise that covers the states. So the warm-up is played by
the exploration policy instead of the untrained actor, and what it reached is what SAC first learns from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import Tensor, nn

from mepol.algorithm.categorical import CategoricalPolicy
from mepol.algorithm.network import ReluNetwork
from mepol.algorithm.policy import GaussianPolicy, one_thread
from mepol.algorithm.symmetry import Symmetry, keep_alike, tie, tie_value
from mepol.envs.choices import choices_of
from mepol.sampling.actors import SquashedPolicy
from mepol.sampling.collect import Actor, Episodic
from mepol.sb3.adapter import Floats
from mepol.sb3.library import ActorCriticPolicy, SacActor


def architecture(hidden: tuple[int, ...], **changes: Any) -> dict[str, Any]:
    """`policy_kwargs` that give Stable-Baselines3's actor the layers of a policy of ours, and its critic the same.

    changes: further ones, or others. Weights start as torch draws them, unless `ortho_init` is among these.
    """
    layers = list(hidden)
    return {"net_arch": {"pi": layers, "vf": layers}, "activation_fn": nn.ReLU, "ortho_init": False, **changes}


@one_thread()
@torch.no_grad()
def write_actor(actor: ActorCriticPolicy, policy: ReluNetwork) -> None:
    """Make `actor` draw the same actions as `policy`; its value function is left alone."""
    for target, (weight, bias) in zip(_actor_layers(actor), _folded(policy), strict=True):
        target.weight.copy_(weight)
        target.bias.copy_(bias)
    if isinstance(policy, GaussianPolicy):
        assert isinstance(actor.log_std, Tensor)
        actor.log_std.copy_(policy.log_std)


def tie_actor(actor: ActorCriticPolicy, symmetries: Sequence[Symmetry]) -> None:
    """Keep the symmetries that the weights of `actor` have, and give them to its value function."""
    if not symmetries:
        return
    tie(_actor_layers(actor), symmetries)
    tie_value((*actor.mlp_extractor.value_net, actor.value_net), symmetries)
    assert isinstance(actor.log_std, Tensor)
    keep_alike(actor.log_std, symmetries)


@torch.no_grad()
def read_actor(
    actor: ActorCriticPolicy, shift: NDArray[np.float64] | None = None, scale: NDArray[np.float64] | None = None
) -> GaussianPolicy | CategoricalPolicy:
    """The actor as a policy of ours, for everything else in this package (saving, filming, measuring).

    shift, scale: (S,) if the learner was shown (s - shift) / scale; the policy is to be shown s.
    """
    layers = _actor_layers(actor)
    hidden = tuple(layer.out_features for layer in layers[:-1])
    policy = _blank(actor, layers[0].in_features, layers[-1].out_features, hidden)
    for target, source in zip(policy.layers, layers, strict=True):
        target.load_state_dict(source.state_dict())
    for buffer, given in ((policy.shift, shift), (policy.scale, scale)):
        if given is not None:
            buffer.copy_(torch.from_numpy(given))
    return policy


@torch.no_grad()
def read_squashed(
    actor: SacActor, space: Box, skills: int = 0, *, shift: Tensor | None = None, scale: Tensor | None = None
) -> SquashedPolicy:
    """SAC's actor as a policy of ours that acts in `space`.

    skills: how many coordinates at the end of its input are SMM's skill; the policy draws them itself.
    shift, scale: (S,) if the learner was shown (s - shift) / scale, without skills; the policy is to be shown s.
    """
    theirs = _squashed_layers(actor)
    *hidden, last = (layer.out_features for layer in theirs[:-1])
    policy = SquashedPolicy(actor.features_dim - skills, last, tuple(hidden), skills)
    for target, source in zip((*policy.layers, policy.mean, policy.log_std), theirs, strict=True):
        target.load_state_dict(source.state_dict())
    if shift is not None and scale is not None:
        first = policy.layers[0]
        assert isinstance(first, nn.Linear)
        for parameter, folded in zip((first.weight, first.bias), _shown_raw(first, shift, scale), strict=True):
            parameter.copy_(folded)
    policy.low.copy_(torch.from_numpy(space.low))
    policy.high.copy_(torch.from_numpy(space.high))
    return policy


@torch.no_grad()
def write_squashed(actor: SacActor, policy: SquashedPolicy) -> None:
    """Make SAC's actor draw the same actions as `policy`, which has no skills and the same widths."""
    for target, source in zip(_squashed_layers(actor), (*policy.layers, policy.mean, policy.log_std), strict=True):
        target.load_state_dict(source.state_dict())


def _squashed_layers(actor: SacActor) -> list[nn.Linear]:
    return [layer for layer in (*actor.latent_pi, actor.mu, actor.log_std) if isinstance(layer, nn.Linear)]


def _blank(
    actor: ActorCriticPolicy, state_dim: int, outputs: int, hidden: tuple[int, ...]
) -> GaussianPolicy | CategoricalPolicy:
    """A policy of ours with the actor's sizes, and its spread where it has one."""
    choices = choices_of(actor.action_space)
    if choices is not None:
        return CategoricalPolicy(state_dim, choices, hidden)
    policy = GaussianPolicy(state_dim, outputs, hidden)
    assert isinstance(actor.log_std, Tensor)
    policy.log_std.copy_(actor.log_std)
    return policy


def _actor_layers(actor: ActorCriticPolicy) -> list[nn.Linear]:
    modules = [*actor.mlp_extractor.policy_net, actor.action_net]
    return [module for module in modules if isinstance(module, nn.Linear)]


def _folded(policy: ReluNetwork) -> list[tuple[Tensor, Tensor]]:
    """Weights and biases of `policy` as it sees raw states, computed in float64."""
    first, *others = (layer for layer in policy.layers if isinstance(layer, nn.Linear))
    return [
        _shown_raw(first, policy.shift, policy.scale),
        *((layer.weight.double(), layer.bias.double()) for layer in others),
    ]


def _shown_raw(layer: nn.Linear, shift: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Weight and bias, in float64, of the layer that does to s what `layer` does to (s - shift) / scale."""
    weight, bias, shift, scale = (tensor.double() for tensor in (layer.weight, layer.bias, shift, scale))
    return weight / scale, bias - weight @ (shift / scale)


def in_unit_box(
    explorer: Actor, state_dim: int, num_envs: int, space: Box, seed: np.random.SeedSequence
) -> Callable[[Floats], Floats]:
    """Whatever acts as it fills SAC's memory: its actions clipped to `space` and mapped to [-1, 1], noise from `seed`.

    It is shown the first `state_dim` coordinates (SMM appends its skill). One that decides something once a trajectory
    decides it once for each of the `num_envs` sub-environments.
    """
    rng = np.random.default_rng(seed)
    actor = explorer.begin(num_envs, rng) if isinstance(explorer, Episodic) else explorer

    def act(obs: Floats) -> Floats:
        actions = np.clip(actor.act(obs[:, :state_dim], rng), space.low, space.high)
        return (2 * (actions - space.low) / (space.high - space.low) - 1).astype(np.float32)

    return act

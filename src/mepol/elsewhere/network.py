"""A policy as plain arrays that any program can compute with, and the facts that arrays do not tell.

The mean action of every kind we export is

    x = (s - shift) / scale;    x = relu(W x + b) for each hidden layer;    m = W x + b

and for a squashed policy (high + low) / 2 + (high - low) / 2 tanh(m).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import nn

from mepol.algorithm.policy import GaussianPolicy
from mepol.envs.domain import Domain
from mepol.errors import PolicyFileError
from mepol.sampling.actors import SquashedPolicy

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Network:
    """The mean action of a policy; arrays are float32."""

    layers: tuple[tuple[Floats, Floats], ...]
    """(out, in) weights and (out,) biases, in order."""
    shift: Floats
    """(S,)."""
    scale: Floats
    """(S,)."""
    squash: tuple[Floats, Floats] | None = None
    """(A,) low and high ends behind a tanh; None where the last layer is the action."""
    log_std: Floats | None = None
    """(A,) ln of the deviation of the noise, where it does not depend on the state."""
    correlation: float = 0.0
    """rho, the share of one step's noise that is left in the next."""

    @property
    def state_dim(self) -> int:
        """S."""
        return len(self.shift)

    @property
    def action_dim(self) -> int:
        """A."""
        return len(self.layers[-1][1])


@dataclass(frozen=True)
class Place:
    """Where a policy acts: the spaces in its own units, and what they stand for."""

    space: Box
    """Of observations, (S,)."""
    action_space: Box
    """Of actions as the policy gives them, (A,)."""
    env: str = ""
    """Name of the environment; empty where nobody said."""
    unit_actions: bool = False
    """Whether [-1, 1] stands for the environment's own range (`gymnasium.wrappers.RescaleAction(env, -1, 1)`)."""
    names: tuple[str, ...] = ()
    """Of the S coordinates."""

    @staticmethod
    def of(domain: Domain, unit_actions: bool) -> Place:
        """The place of a run; unit_actions: as its settings have it."""
        if not isinstance(domain.action_space, Box):
            raise PolicyFileError(f"{domain.env} has discrete actions, which no export knows yet")
        unit = unit_actions and bool(np.all(domain.action_low == -1) and np.all(domain.action_high == 1))
        return Place(domain.space, domain.action_space, domain.env, unit, domain.names)

    @staticmethod
    def unknown(policy: Any) -> Place:
        """Of a policy file alone: as many coordinates as the policy has, without bounds."""
        widths = network_of(policy).state_dim, network_of(policy).action_dim
        observed, acted = (Box(-np.inf, np.inf, (width,), np.float32) for width in widths)
        return Place(observed, acted)


def network_of(policy: Any) -> Network:
    """The arrays of a policy; PolicyFileError for kinds without a rule here."""
    kind = KINDS.get(type(policy))
    if kind is None:
        known = " and ".join(k.__name__ for k in KINDS)
        raise PolicyFileError(f"a {type(policy).__name__} cannot be exported: only {known} have a form elsewhere")
    return kind(policy)


def facts_of(policy: Any, place: Place) -> dict[str, Any]:
    """What arrays do not tell, as plain values for JSON."""
    net = network_of(policy)
    bounds = {
        name: [float(v) if np.isfinite(v) else None for v in end]
        for name, end in (("action_low", place.action_space.low), ("action_high", place.action_space.high))
    }
    return {
        "format": "mepol-export-1",
        "policy": type(policy).__name__,
        "env": place.env,
        "observation_names": list(place.names),
        "state_dim": net.state_dim,
        "action_dim": net.action_dim,
        **bounds,
        "unit_actions": place.unit_actions,
        "log_std": None if net.log_std is None else net.log_std.tolist(),
        "noise_correlation": net.correlation,
    }


# --- Kinds of policies ------------------------------------------------------------------------------------------------


def _gaussian(policy: GaussianPolicy) -> Network:
    if policy.picture is not None:
        raise PolicyFileError(
            f"a policy that reads pictures {policy.picture.source} cannot be exported yet: load_policy opens its file"
        )
    shift, scale, log_std = (t.detach().numpy().copy() for t in (policy.shift, policy.scale, policy.log_std))
    return Network(_arrays(policy.layers), shift, scale, log_std=log_std, correlation=policy.correlation)


def _squashed(policy: SquashedPolicy) -> Network:
    if policy.skills:
        raise PolicyFileError(
            f"a policy with {policy.skills} skills cannot be exported: it draws one per trajectory, a file cannot"
        )
    state_dim = policy.widths[0]
    plain = np.zeros(state_dim, dtype=np.float32), np.ones(state_dim, dtype=np.float32)
    ends = policy.low.numpy().copy(), policy.high.numpy().copy()
    return Network((*_arrays(policy.layers), *_arrays([policy.mean])), *plain, squash=ends)


def _arrays(layers: Any) -> tuple[tuple[Floats, Floats], ...]:
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    return tuple((layer.weight.detach().numpy().copy(), layer.bias.detach().numpy().copy()) for layer in linear)


KINDS: dict[type, Callable[[Any], Network]] = {GaussianPolicy: _gaussian, SquashedPolicy: _squashed}
"""Kind of policy -> its arrays; a further kind needs a line here."""

"""A policy as plain arrays that any program can compute with, and the facts that arrays do not tell.

The mean action of every kind we export is

    x = (s - shift) / scale;    x = relu(W x + b) for each hidden layer;    m = W x + b

and for a squashed policy (high + low) / 2 + (high - low) / 2 tanh(m). Of a policy of choices m are the logits of all
choices side by side; the likeliest is the action without noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from numpy.typing import NDArray
from torch import nn

from mepol.algorithm.categorical import CategoricalPolicy
from mepol.algorithm.policy import GaussianPolicy, NetworkPolicy
from mepol.envs.choices import Choices, space_of
from mepol.envs.domain import Domain
from mepol.errors import PolicyFileError
from mepol.sampling.actors import SquashedPolicy

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Network:
    """The mean action of a policy, or the logits of its choices; arrays are float32."""

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
    choices: Choices | None = None
    """(n_1, .., n_A) of a policy of choices, whose last layer gives their logits side by side."""

    @property
    def state_dim(self) -> int:
        """S."""
        return len(self.shift)

    @property
    def outputs(self) -> int:
        """A, or the sum of all choices."""
        return len(self.layers[-1][1])

    @property
    def action_dim(self) -> int:
        """A."""
        return self.outputs if self.choices is None else len(self.choices)


@dataclass(frozen=True)
class Place:
    """Where a policy acts: the spaces in its own units, and what they stand for."""

    space: Box
    """Of observations, (S,)."""
    action_space: Box | Discrete | MultiDiscrete
    """Of actions as the policy gives them, (A,); choices are whole numbers from 0, and a single one is a number."""
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
            return Place(domain.space, choice_space(domain.choices or ()), domain.env, False, domain.names)
        unit = unit_actions and bool(np.all(domain.action_low == -1) and np.all(domain.action_high == 1))
        return Place(domain.space, domain.action_space, domain.env, unit, domain.names)

    @staticmethod
    def unknown(policy: Any) -> Place:
        """Of a policy file alone: as many coordinates as the policy has, without bounds; choices are known."""
        net = network_of(policy)
        observed, acted = (Box(-np.inf, np.inf, (width,), np.float32) for width in (net.state_dim, net.action_dim))
        return Place(observed, acted if net.choices is None else choice_space(net.choices))

    @property
    def ends(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """(A,) lower and upper ends of the actions."""
        if isinstance(self.action_space, Box):
            return self.action_space.low, self.action_space.high
        most = np.atleast_1d(self.action_space.n if isinstance(self.action_space, Discrete) else self.action_space.nvec)
        return np.zeros_like(most), most - 1

    def given(self, actions: NDArray[Any]) -> NDArray[Any]:
        """(T, A) actions as the action space holds them: in its type, and (T,) of a single choice."""
        own = actions.astype(self.action_space.dtype)
        return own[:, 0] if isinstance(self.action_space, Discrete) else own


def choice_space(choices: Choices) -> Discrete | MultiDiscrete:
    """The space of choices, whole numbers from 0, as other people's learners have it."""
    return Discrete(choices[0]) if len(choices) == 1 else space_of(choices)


def network_of(policy: Any) -> Network:
    """The arrays of a policy; PolicyFileError for kinds without a rule here."""
    kind = KINDS.get(type(policy))
    if kind is None:
        *others, last = (k.__name__ for k in KINDS)
        known = f"{', '.join(others)} and {last}"
        raise PolicyFileError(f"a {type(policy).__name__} cannot be exported: only {known} have a form elsewhere")
    return kind(policy)


def facts_of(policy: Any, place: Place) -> dict[str, Any]:
    """What arrays do not tell, as plain values for JSON."""
    net = network_of(policy)
    bounds = {
        name: [float(v) if np.isfinite(v) else None for v in end]
        for name, end in zip(("action_low", "action_high"), place.ends, strict=True)
    }
    return {
        "format": "mepol-export-1",
        "policy": type(policy).__name__,
        "env": place.env,
        "observation_names": list(place.names),
        "state_dim": net.state_dim,
        "action_dim": net.action_dim,
        "choices": None if net.choices is None else list(net.choices),
        **bounds,
        "unit_actions": place.unit_actions,
        "log_std": None if net.log_std is None else net.log_std.tolist(),
        "noise_correlation": net.correlation,
    }


# --- Kinds of policies ------------------------------------------------------------------------------------------------


def _gaussian(policy: GaussianPolicy) -> Network:
    log_std = policy.log_std.detach().numpy().copy()
    return Network(*_read(policy), log_std=log_std, correlation=policy.correlation)


def _categorical(policy: CategoricalPolicy) -> Network:
    return Network(*_read(policy), choices=policy.choices)


def _read(policy: NetworkPolicy) -> tuple[tuple[tuple[Floats, Floats], ...], Floats, Floats]:
    """Layers, shift and scale."""
    if policy.picture is not None:
        raise PolicyFileError(
            f"a policy that reads pictures {policy.picture.source} cannot be exported yet: load_policy opens its file"
        )
    return _arrays(policy.layers), policy.shift.numpy().copy(), policy.scale.numpy().copy()


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


KINDS: dict[type, Callable[[Any], Network]] = {
    GaussianPolicy: _gaussian,
    CategoricalPolicy: _categorical,
    SquashedPolicy: _squashed,
}
"""Kind of policy -> its arrays; a further kind needs a line here."""
